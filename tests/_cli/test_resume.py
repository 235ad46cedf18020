"""``dynamite resume`` and ``dynamite show``."""

import signal
from pathlib import Path

import pytest

from tests._cli.commands import dynamite, invoke
from tests._cli.test_run import SHORT, STREAM, trained

# A signal is sent after the tenth round's line is on disk, with or without checkpoints before.
CUT = """
import os, signal
from dynamite_fl.training import session
append, count = session.append_line, 0
def appended(path, text):
    global count
    append(path, text)
    count += 1
    if count == 10:
        os.kill(os.getpid(), {signal})
session.append_line = appended
session.Session.seconds_between_checkpoints = {seconds}
"""


@pytest.mark.parametrize(
    ("how", "seconds", "more"),
    [
        (signal.SIGKILL, 0.0, STREAM),
        (signal.SIGINT, 30.0, ()),
        pytest.param(signal.SIGKILL, 30.0, (), marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 30.0, STREAM, marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed_is_as_if_nothing_had_been(
    tmp_path: Path, how: signal.Signals, seconds: float, more: tuple[str, ...]
) -> None:
    many = (*SHORT, "--set", "limits.rounds=20", *more)
    whole = trained(tmp_path, *many, name="whole")
    cut = tmp_path / "cut"
    before = CUT.format(signal=int(how), seconds=seconds)
    result = dynamite("run", "--runs", tmp_path, "--name", "cut", *many, before=before)
    assert result.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    if how == signal.SIGINT:
        assert f"To go on: dynamite resume {cut}" in result.stdout
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
