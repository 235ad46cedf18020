"""The commands for real machines, run in this process or in others."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynamite_fl._cli.all_commands import app
from dynamite_fl.training.history import read_history
from tests.flower.machines import ENVIRONMENT
from tests.processes import HANG_SECONDS, MAIN, run_python

NODES = 2
_JOB = """
[task]
model = "softmax"
dataset = "digits"

[partition]
kind = "dirichlet"
alpha = 0.5

[devices]
samples_per_second = [100, 100]

[limits]
rounds = {rounds}
deadline = 1000
budget = 2000
cost_per_sample = 0.001
cost_per_round = 1
max_local_steps = 4

[controller]
name = "dynamite"

[training]
learning_rate = 0.05
evaluate_every = 10
"""


def write_job(folder: Path, rounds: int) -> Path:
    """Write a job for two nodes, and return its path."""
    path = folder / "job.toml"
    path.write_text(_JOB.format(rounds=rounds))
    return path


def run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return run_python(MAIN, *arguments, environment=ENVIRONMENT)


@contextmanager
def running(*arguments: str | Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in the background, and kill it with the context."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *map(str, arguments)],
            env=ENVIRONMENT,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(HANG_SECONDS)


def refusal(*arguments: object) -> str:
    """Return what a command says when it cannot do what it is asked, in one line."""
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def rounds_played(folder: Path) -> int:
    """Return the number of rounds in the history of a run folder."""
    history = folder / "history.jsonl"
    return history.read_bytes().count(b"\n") if history.exists() else 0


def check_history(folder: Path, rounds: int) -> None:
    """Check that every round is in the history once, and was charged once."""
    records = read_history(folder / "history.jsonl")
    assert [record.round for record in records] == list(range(1, rounds + 1))
    cost, samples, seconds = 0.0, 0, 0.0
    for record in records:
        traffic = record.cost - cost - 0.001 * (record.samples - samples)
        if record.round == 1:  # there is no old batch whose gradient would be sent
            assert traffic == pytest.approx(1.0)
        elif min(record.local_steps, records[record.round - 2].local_steps) > 1:
            assert traffic == pytest.approx(1.5 if record.probed else 1.0)
        else:  # a single step uses the batch up, so that the next probe has none
            assert 1.0 - 1e-9 <= traffic <= 1.5 + 1e-9
        assert record.seconds - seconds == pytest.approx(record.round_seconds)
        cost, samples, seconds = record.cost, record.samples, record.seconds
