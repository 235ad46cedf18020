"""``dynamite run``, ``resume`` and ``show`` as a user has them."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynamite_fl.cli import app
from dynamite_fl.report.history import read_history
from tests.test_cli import dynamite

SHORT = ("--set", "limits.rounds=12", "--set", "task.model=softmax")


def trained(tmp_path: Path, *more: str) -> Path:
    result = dynamite("run", "--runs", tmp_path, "--name", "a", *SHORT, *more)
    assert result.returncode == 0, result.stderr
    return tmp_path / "a"


def test_a_run_leaves_its_folder(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "checkpoint.safetensors",
        "ended.txt",
        "history.jsonl",
        "job.toml",
        "model.safetensors",
    }
    history = read_history(folder / "history.jsonl")
    assert len(history) == 12
    assert history.final_accuracy > 0.3
    shown = dynamite("show", folder)
    assert f"{history.final_accuracy:.1%}" in shown.stdout
    assert "12, ended by the rounds" in shown.stdout
    last = json.loads(dynamite("show", folder, "--json").stdout)
    assert last["round"] == 12


def test_the_resolved_job_repeats_the_run(tmp_path: Path) -> None:
    folder = trained(tmp_path, "--set", "limits.budget=inf", "--set", "devices=vm20")
    again = dynamite("run", folder / "job.toml", "--runs", tmp_path, "--name", "b")
    assert again.returncode == 0, again.stderr
    for name in ("history.jsonl", "model.safetensors"):
        assert (folder / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


STREAM = ("--set", 'stream={preset="smooth-c", scale=0.01, every=3, size=10, buffer_size=60}')


@pytest.mark.parametrize(
    ("how", "more"), [(signal.SIGKILL, ()), (signal.SIGINT, ()), (signal.SIGKILL, STREAM)]
)
def test_killed_and_resumed_is_as_if_nothing_had_been(
    tmp_path: Path, how: signal.Signals, more: tuple[str, ...]
) -> None:
    many = ("--set", "limits.rounds=150", "--set", "task.model=softmax", *more)
    whole = dynamite("run", "--runs", tmp_path, "--name", "whole", *many)
    assert whole.returncode == 0, whole.stderr
    command = [sys.executable, "-c", "from dynamite_fl.cli import main; main()", "run"]
    process = subprocess.Popen(
        [*command, "--runs", str(tmp_path), "--name", "cut", *many],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "COLUMNS": "100"},
        text=True,
    )
    history = tmp_path / "cut" / "history.jsonl"
    waited = time.monotonic() + 60
    while not (history.exists() and history.read_text().count("\n") >= 20):
        assert process.poll() is None
        assert time.monotonic() < waited
        time.sleep(0.02)
    process.send_signal(how)
    output = process.communicate(timeout=60)[0]
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "To go on: dynamite resume" in output
    resumed = dynamite("resume", tmp_path / "cut")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("history.jsonl", "model.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("controller.name=dynamit", "did you mean 'dynamite'?"),
        ("controller.speed=3", "dynamite-feedback has no setting 'speed'"),
        ("task.model=sofmax", "did you mean softmax?"),
        ("task.dataset=mnits", "mnits"),
        ("partition.kind=dirichle", "partition.kind must be one of"),
        ("partition.alpha=-1", "alpha"),
        ("devices.latency=-1", "latency"),
        ("training.learning_rate=0", "training.learning_rate"),
        ("training.sead=1", "did you mean seed?"),
        ("limits.dedline=1", "did you mean deadline?"),
        ("task=nowhere:make", "nowhere cannot be imported"),
        ('stream="burst"', "stream must be a table"),
        ("stream.preset=smoth-i", "use one of smooth-i, smooth-c, burst, random"),
        ('stream={preset="burst", scale=2}', "the stream's scale is 2"),
        ('stream={preset="burst", scale="x"}', "the stream's scale is 'x'"),
        ("stream.scale=0.5", "set stream.preset too"),
        ('stream={preset="burst", bufer="fifo"}', "did you mean buffer?"),
        ('stream={preset="burst", buffer="lifo"}', "use one of reservoir, random, fifo"),
        ('stream={preset="burst", buffer_size=2.5}', "the buffer's size is 2.5"),
        ('stream={preset="burst", initial=-1}', "the stream's initial is -1"),
        ('stream={preset="burst", initial=0, size=0}', "no sample ever arrives"),
        ('stream={preset="burst", every=3}', "stream.every is not for arrivals 'burst'"),
        ('stream={preset="burst", spread="x"}', "the stream's spread is 'x'"),
        ('stream={preset="burst", most=0}', "the stream's most is 0"),
        ('stream={preset="random", rounds=0}', "the stream's rounds is 0"),
        ('stream={arrivals="burst", order="iid", initial=1, size=1}', "needs stream.at"),
        ('stream={arrivals="burst", at=1, order="iid", initial=1, size=1}', "has no size"),
        ('stream={arrivals="smoth", order="iid", initial=1, size=1}', "use one of smooth, burst"),
    ],
)
def test_bad_jobs_end_with_2_and_leave_nothing(tmp_path: Path, change: str, complaint: str) -> None:
    arguments = ["run", "--runs", str(tmp_path), "--name", "a", "--set", change]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.stderr
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "a").exists()


def test_a_run_on_a_stream_shows_what_it_has_forgotten(tmp_path: Path) -> None:
    folder = trained(tmp_path, *STREAM, "--set", "controller.name=dynamite")
    history = read_history(folder / "history.jsonl")
    last = history.lines[-1]
    assert set(last["class_accuracy"]) == {str(label) for label in range(10)}
    assert last["stream_loss"] > 0
    assert "drift" in last["estimates"]
    shown = dynamite("show", folder).stdout
    worst = history.worst_class
    assert worst is not None
    assert f"worst class  {worst[0]}, {worst[1]:.1%}" in shown
    assert f"{last['stream_loss']:.3f} on all that has arrived" in shown
    assert json.loads(dynamite("show", folder, "--json").stdout)["stream_loss"] > 0


def test_random_arrivals_need_to_know_until_when(tmp_path: Path) -> None:
    open_rounds = ("--set", "limits.rounds=none", "--set", "stream.preset=random")
    result = CliRunner().invoke(app, ["run", "--runs", str(tmp_path), "--name", "a", *open_rounds])
    assert result.exit_code == 2
    assert "random arrivals need stream.rounds" in result.stderr


def test_impossible_limits_end_with_3(tmp_path: Path) -> None:
    arguments = ["run", "--runs", str(tmp_path), "--name", "a", "--set", "limits.deadline=0.1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 3
    assert "The smallest change: deadline" in result.stderr
    assert not (tmp_path / "a").exists()


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    before = (folder / "history.jsonl").read_bytes()
    result = dynamite("run", "--runs", tmp_path, "--name", "a", *SHORT)
    assert result.returncode == 2
    assert "is there already" in result.stderr
    assert (folder / "history.jsonl").read_bytes() == before


def test_what_is_no_run_folder(tmp_path: Path) -> None:
    for command in ("resume", "show"):
        result = dynamite(command, tmp_path)
        assert result.returncode == 2
        assert "is no run folder" in result.stderr


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = trained(tmp_path)
    checkpoint = folder / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    result = dynamite("resume", folder)
    assert result.returncode == 2
    assert "damaged" in result.stderr


@pytest.mark.parametrize(("model", "rate", "rounds"), [("perceptron", 1e25, 12), ("svm", 1.0, 150)])
def test_a_loss_that_turns_nan_is_said(
    tmp_path: Path, model: str, rate: float, rounds: int
) -> None:
    """At once, or by and by, while gradients are finite but larger than can be planned with."""
    change = [f"training.learning_rate={rate}", f"task.model={model}", f"limits.rounds={rounds}"]
    more = [word for each in change for word in ("--set", each)]
    result = dynamite("run", "--runs", tmp_path, "--name", "a", *more)
    assert result.returncode == 2
    assert "try a smaller training.learning_rate" in result.stderr


PROBING = ("--set", "controller.name=dynamite")  # whose clients keep gradients in checkpoints


def test_a_full_disk_is_said_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    """A limit on the size of files, which is smaller than a checkpoint, stands for the disk."""
    command = [sys.executable, "-c", "from dynamite_fl.cli import main; main()", "run"]
    result = subprocess.run(
        [*command, "--runs", str(tmp_path), "--name", "a", *SHORT, *PROBING],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 2
    assert "cannot be written: File too large" in result.stderr
    assert not (tmp_path / "a" / "checkpoint.safetensors").exists()
    assert not list((tmp_path / "a").glob(".writing-*"))


def test_a_task_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        """
import torch
from torch import nn
from dynamite_fl.task.task import Task

def make_task():
    torch.manual_seed(0)
    x = torch.randn(300, 4)
    y = (x.sum(1) > 0).long()
    return Task(
        name="mine",
        make_model=lambda: nn.Linear(4, 2),
        loss=nn.CrossEntropyLoss(reduction="none"),
        correct=lambda outputs, targets: outputs.argmax(1) == targets,
        train_inputs=x, train_targets=y, test_inputs=x, test_targets=y,
    )
"""
    )
    command = [
        sys.executable,
        "-c",
        "from dynamite_fl.cli import main; main()",
        "run",
        "--name",
        "a",
    ]
    command += ["--set", "task=mine:make_task", "--set", "limits.rounds=20"]
    command += [
        "--set",
        "partition.kind=wang",
        "--set",
        "partition.alpha=none",
        "--set",
        "partition.case=1",
    ]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    assert read_history(tmp_path / "runs" / "a" / "history.jsonl").final_accuracy > 0.8
