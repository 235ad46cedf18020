"""``dynamite resume`` and ``dynamite show``."""

import os
import signal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dynamite_fl import _atomic
from dynamite_fl.training import history_file, session
from dynamite_fl.training.folder_lock import FolderLock
from dynamite_fl.training.history import read_history
from tests._cli.commands import invoke
from tests._cli.test_run import SHORT, STREAM, trained
from tests.processes import main, run_forked

CUT_AFTER = 3  # rounds


def run_until(how: signal.Signals, seconds: float, *words: str | Path) -> None:
    """Run a command that sends itself a signal when a round's line is on disk.

    Args:
        how: The signal.
        seconds: The seconds between checkpoints.
        words: The command line.
    """
    append, lines, whole = _atomic.append_line, list[str](), session.Session

    def append_and_signal(path: Path, text: str) -> None:
        append(path, text)
        lines.append(text)
        if len(lines) == CUT_AFTER:
            os.kill(os.getpid(), how)

    def quick_session(*arguments: Any, **settings: Any) -> session.Session:
        return whole(*arguments, **{**settings, "seconds_between_checkpoints": seconds})

    with (
        patch.object(history_file, "append_line", append_and_signal),
        patch.object(session, "Session", quick_session),
    ):
        main(*words)


@pytest.mark.parametrize(
    ("how", "seconds", "more"),
    [
        (signal.SIGKILL, 0.0, ()),
        (signal.SIGINT, 30.0, STREAM),
        *(
            pytest.param(how, seconds, more, marks=pytest.mark.slow)
            for how, seconds, more in (
                (signal.SIGKILL, 0.0, STREAM),
                (signal.SIGKILL, 30.0, ()),
                (signal.SIGKILL, 30.0, STREAM),
                (signal.SIGINT, 30.0, ()),
            )
        ),
    ],
)
def test_a_killed_run_resumes_to_the_files_of_an_undisturbed_one(
    tmp_path: Path, how: signal.Signals, seconds: float, more: tuple[str, ...]
) -> None:
    """It resumes from a checkpoint of the last round, from none, or from that of Ctrl-C."""
    short = (*SHORT, "--set", "limits.rounds=6", *more)
    whole, cut = trained(tmp_path, *short, name="whole"), tmp_path / "cut"
    words: list[str | Path] = ["run", "--runs", tmp_path, "--name", "cut", *short]
    code = run_forked(lambda: run_until(how, seconds, *words), tmp_path / "output.txt")
    assert code == (130 if how == signal.SIGINT else -signal.SIGKILL)
    assert read_history(cut / "history.jsonl")[-1].round == CUT_AFTER
    assert (cut / "checkpoint.safetensors").exists() == (seconds == 0 or how == signal.SIGINT)
    if how == signal.SIGINT:
        assert f"To go on: dynamite resume {cut}" in (tmp_path / "output.txt").read_text()
    resumed = invoke("resume", cut)
    assert resumed.exit_code == 0, resumed.stderr
    for name in ("history.jsonl", "model.safetensors", "checkpoint.safetensors", "ended.txt"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.parametrize("command", ["resume", "show"])
def test_what_is_not_a_run_folder_is_refused(command: str, tmp_path: Path) -> None:
    result = invoke(command, tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path} is not a run folder" in result.stderr


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    checkpoint = folder / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    result = invoke("resume", folder)
    assert result.exit_code == 2
    assert "checkpoint.safetensors is damaged" in result.stderr


def test_show_tells_what_a_run_reached(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    shown = invoke("show", folder)
    assert shown.exit_code == 0
    assert "12, ended by the rounds" in shown.stdout


def test_a_finished_run_resumes_to_the_same_summary(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    before = (folder / "history.jsonl").read_bytes()
    resumed = invoke("resume", folder)
    assert resumed.exit_code == 0
    assert (folder / "history.jsonl").read_bytes() == before


def test_two_commands_at_once_are_not_possible(tmp_path: Path) -> None:
    """Whichever command comes second says who is there, and changes nothing."""
    folder = trained(tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with FolderLock(folder).held():
        for words in (
            ("resume", folder),
            ("serve", folder / "job.toml", "--runs", tmp_path, "--name", "a", "--port", "0"),
        ):
            (folder / "ended.txt").unlink(missing_ok=True)
            result = invoke(*words)
            assert result.exit_code == 2, words
            assert f"{folder} is in use by process {os.getpid()} on" in result.stderr
            assert len(result.stderr.splitlines()) == 1
    resumed = invoke("resume", folder)
    assert resumed.exit_code == 0, resumed.stderr
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_a_comparison_is_not_possible_twice_at_once(tmp_path: Path) -> None:
    words = ("compare", "--runs", tmp_path, "--name", "c", "--controllers", "fedavg")
    with FolderLock(tmp_path / "c").held():
        result = invoke(*words, "--seeds", "1")
    assert result.exit_code == 2
    assert f"{tmp_path / 'c'} is in use by process" in result.stderr
