"""``--engine ray``: Flower's simulation on a real Ray, in processes as a user has them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests._cli.commands import dynamite

JOB = """
[task]
model = "cnn"
dataset = "digits"

[partition]
kind = "dirichlet"
alpha = 0.5

[devices]
samples_per_second = [100, 200, 50]
latency = 0.1
jitter = 0.2

[stream]
arrivals = "smooth"
order = "iid"
initial = 40
size = 20
every = 2
buffer_size = 60

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
"""
FILES = ("history.jsonl", "model.safetensors", "checkpoint.safetensors")


def written(folder: Path, rounds: int) -> Path:
    path = folder / "job.toml"
    path.write_text(JOB.format(rounds=rounds))
    return path


def check_equal(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_equal_to_the_bit(tmp_path: Path) -> None:
    job = written(tmp_path, rounds=6)
    for name, engine in (("here", "local"), ("ray", "ray")):
        result = dynamite("run", job, "--runs", tmp_path, "--name", name, "--engine", engine)
        assert result.returncode == 0, result.stderr
    check_equal(tmp_path / "here", tmp_path / "ray")


def of_session(leader: int) -> list[str]:
    """The processes that a command and its children have started."""
    found = subprocess.run(
        ["ps", "-ww", "-eo", "sid=,stat=,args="],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(maxsplit=2) for line in found.stdout.splitlines()]
    return [row[2] for row in rows if row[0] == str(leader) and not row[1].startswith("Z")]


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_and_it_goes_on(tmp_path: Path) -> None:
    job, rounds = written(tmp_path, rounds=40), 40
    command = ["run", str(job), "--runs", str(tmp_path), "--name", "ray", "--engine", "ray"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from dynamite_fl._cli.main import main; main()", *command],
        start_new_session=True,
    )
    history = tmp_path / "ray" / "history.jsonl"
    until = time.monotonic() + 120
    while not history.exists() or history.read_bytes().count(b"\n") < 3:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    assert any("raylet" in each for each in of_session(process.pid))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: Ray's processes get it too
    assert process.wait(60) == 130
    until = time.monotonic() + 60
    while of_session(process.pid):
        assert time.monotonic() < until, of_session(process.pid)
        time.sleep(0.1)
    assert history.read_bytes().count(b"\n") < rounds
    resumed = dynamite("resume", tmp_path / "ray", "--engine", "ray")
    assert resumed.returncode == 0, resumed.stderr
    whole = dynamite("run", job, "--runs", tmp_path, "--name", "here")
    assert whole.returncode == 0, whole.stderr
    check_equal(tmp_path / "here", tmp_path / "ray")


def test_an_address_where_no_ray_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    result = dynamite("run", written(tmp_path, 5), "--runs", tmp_path / "runs", "--engine", "ray")
    assert result.returncode == 2
    assert "Ray is not at RAY_ADDRESS=127.0.0.1:1" in result.stderr
    assert not (tmp_path / "runs").exists()
