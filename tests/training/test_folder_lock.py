"""Locks on folders: who holds one, and who does not any more."""

import os
import re
import signal
import socket
import threading
from pathlib import Path

import pytest

from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.folder_lock import LOCK_NAME, FolderLock
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session
from tests.processes import run_forked, wait_until
from tests.trainings import training


def test_a_second_holder_is_told_who_the_first_is(tmp_path: Path) -> None:
    with FolderLock(tmp_path).held():
        with pytest.raises(RunFolderError) as refused, FolderLock(tmp_path).held():
            pass
        words = rf"{tmp_path} is in use by process {os.getpid()} on {socket.gethostname()} since "
        assert re.match(re.escape(words) + r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", str(refused.value))
    with FolderLock(tmp_path).held():
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_holder_may_take_it_again(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with lock.held():
        with lock.held():
            pass
        with pytest.raises(RunFolderError), FolderLock(tmp_path).held():
            pass


def test_a_lock_of_a_killed_process_does_not_block(tmp_path: Path) -> None:
    def hold_and_die() -> None:
        with FolderLock(tmp_path / "run").held():
            os.kill(os.getpid(), signal.SIGKILL)

    assert run_forked(hold_and_die, tmp_path / "output.txt") == -signal.SIGKILL
    assert "process" in (tmp_path / "run" / LOCK_NAME).read_text()
    with FolderLock(tmp_path / "run").held():
        assert f"process {os.getpid()} on" in (tmp_path / "run" / LOCK_NAME).read_text()


def test_a_fork_of_the_holder_does_not_hold_the_lock(tmp_path: Path) -> None:
    """A worker may outlive a server that was killed."""
    reading, writing = os.pipe()
    holder = os.fork()
    if holder == 0:
        with FolderLock(tmp_path).held():
            if os.fork() == 0:
                os.close(writing)
                os.read(reading, 1)  # until the test is over
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(holder, 0)
    try:
        with FolderLock(tmp_path).held():
            pass
    finally:
        os.close(writing)
        os.close(reading)


def test_an_empty_folder_is_removed_and_a_full_one_stays(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    with FolderLock(empty).held(), FolderLock(full).held():
        (full / "job.toml").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    old = tmp_path / "old"
    old.mkdir()
    with FolderLock(old).held():
        pass
    assert old.is_dir()


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_is_no_lock_file_is_refused(tmp_path: Path, kind: str) -> None:
    if kind == "folder":
        (tmp_path / LOCK_NAME).mkdir()
    else:
        (tmp_path / LOCK_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunFolderError, match="cannot be written"), FolderLock(tmp_path).held():
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_session_that_runs_keeps_others_out(tmp_path: Path) -> None:
    """Both are in one process, in two threads, as two calls of train() may be."""
    folder, go_on, seen = RunFolder(tmp_path), threading.Event(), list[int]()

    def wait(_: object) -> None:
        seen.append(1)
        go_on.wait()

    first = threading.Thread(target=Session(training("fedavg"), folder, on_round=[wait]).run)
    first.start()
    try:
        wait_until(lambda: bool(seen))
        with pytest.raises(RunFolderError, match="is in use by process"):
            Session(training("fedavg"), RunFolder(tmp_path)).run()
    finally:
        go_on.set()
        first.join()
    assert Session(training("fedavg"), RunFolder(tmp_path)).run().stopped_by is not None
