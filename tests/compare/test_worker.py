"""What a process of a comparison does with a training."""

from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from dynamite_fl.compare import worker
from dynamite_fl.compare.worker import Failed, Stopped, attempt
from dynamite_fl.errors import Diverged
from dynamite_fl.training.history import read_history
from dynamite_fl.training.run_folder import RunFolder
from tests.compare.test_parallel import small_run


@pytest.fixture
def pipe() -> tuple[Connection, Connection]:
    return Pipe()


@pytest.mark.parametrize("told_by", ["message", "end"])
def test_a_message_or_the_end_of_the_pipe_stops_a_run(
    tmp_path: Path, pipe: tuple[Connection, Connection], told_by: str
) -> None:
    ours, theirs = pipe
    if told_by == "message":
        ours.send("stop")
    else:
        ours.close()
    assert attempt(small_run(tmp_path), None, theirs) == Stopped()
    folder = RunFolder(tmp_path / "fedavg-0")
    assert len(read_history(folder.history)) == 1
    assert folder.checkpoint.exists()


def test_a_bug_keeps_its_traceback(
    tmp_path: Path, pipe: tuple[Connection, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(worker, "user_traceback", lambda _: None)  # this file counts as a user's
    monkeypatch.setattr(worker, "build_training", broken)
    message = attempt(small_run(tmp_path), None, pipe[1])
    assert isinstance(message, Failed)
    assert "Traceback (most recent call last)" in message.reason
    assert "ZeroDivisionError: of ours" in message.reason


def test_divergence_is_kept_in_the_folder(
    tmp_path: Path, pipe: tuple[Connection, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverging(*_: object) -> Any:
        raise Diverged("all updates were refused")

    monkeypatch.setattr(worker, "_train", diverging)
    run = small_run(tmp_path)
    run.path.mkdir()
    assert attempt(run, None, pipe[1]) == Failed("all updates were refused")
    assert RunFolder(run.path).diverged.read_text() == "all updates were refused\n"
    assert run.is_finished
