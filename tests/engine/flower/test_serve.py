"""The commands for real machines, as a user has them."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynamite_fl.cli import app
from dynamite_fl.report.history import read_history
from tests.engine.flower.machines import ENVIRONMENT
from tests.test_cli import dynamite

NODES = 2
JOB = """
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


class Running:
    """A command that runs, and is killed with its context."""

    def __init__(self, *arguments: str | Path, log: Path) -> None:
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from dynamite_fl.cli import main; main()",
                    *map(str, arguments),
                ],
                env=ENVIRONMENT,
                stdout=output,
                stderr=output,
            )

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(10)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def written(folder: Path, rounds: int) -> Path:
    path = folder / "job.toml"
    path.write_text(JOB.format(rounds=rounds))
    return path


def nodes(stack: ExitStack, folder: Path, job: Path, port: int, *, keys: bool) -> None:
    for place in range(NODES):
        name = f"n{place}"
        secret = ["--keys", str(folder / "keys" / name)] if keys else []
        arguments = ["--server", f"127.0.0.1:{port}", "--name", name, "--part", str(place)]
        state = ["--state", str(folder / name)]
        log = folder / f"{name}.log"
        stack.enter_context(Running("node", job, *arguments, *state, *secret, log=log))


def check_ledger(folder: Path, rounds: int) -> None:
    """Each round is there once, and was paid once."""
    lines = read_history(folder / "history.jsonl").lines
    assert [line["round"] for line in lines] == list(range(1, rounds + 1))
    cost, samples, seconds = 0.0, 0, 0.0
    for line in lines:
        traffic = 1.5 if line["probed"] else 1.0
        paid = 0.001 * (line["samples"] - samples) + traffic
        assert line["cost"] - cost == pytest.approx(paid)
        assert line["seconds"] - seconds == pytest.approx(line["round_seconds"])
        cost, samples, seconds = line["cost"], line["samples"], line["seconds"]


def said(*arguments: object) -> str:
    """What the command says when it cannot do what it was asked, in one line."""
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_nobody_comes(tmp_path: Path) -> None:
    options = ["--name", "a", "--runs", tmp_path, "--port", "0", "--wait", "0.5"]
    output = said("serve", written(tmp_path, 5), *options)
    assert "for this machine only" in output
    assert "0 of at least 2 nodes are here after 0.5 s" in output


def test_not_without_keys(tmp_path: Path) -> None:
    served = ["serve", written(tmp_path, 5), "--name", "a", "--runs", tmp_path]
    assert "only this machine is served" in said(*served, "--host", "0.0.0.0")  # noqa: S104
    assert "no server's folder" in said(*served, "--keys", tmp_path)
    assert "no node's folder" in said("node", "--name", "a", "--keys", tmp_path)


def test_keys(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["keys", "a", "b", "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "a" / "node.key").exists()
    assert "cannot be a node's name" in said("keys", "server", "--folder", tmp_path)


@pytest.mark.faults
def test_a_cluster(tmp_path: Path) -> None:
    job = written(tmp_path, 8)
    arguments = ("cluster", job, "--name", "a", "--runs", tmp_path, "--cpu-shares", "1,0.2")
    result = dynamite(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["round"] == 8
    check_ledger(tmp_path / "a", 8)
    again = dynamite(*arguments, "--json")  # it has ended: nothing is started
    assert again.stdout == result.stdout
    assert dynamite("resume", tmp_path / "a").returncode == 2
    assert not nodes_of(tmp_path)


def nodes_of(folder: Path) -> list[str]:
    """The nodes of a cluster that run, by their command lines."""
    words = ["ps", "-ww", "-eo", "args"]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = found.stdout.splitlines()
    return [line for line in lines if str(folder) in line and "--until-eof" in line]


@pytest.mark.faults
@pytest.mark.parametrize("rounds", [0, 2])
def test_nodes_end_with_a_server_that_is_killed(tmp_path: Path, rounds: int) -> None:
    """Before they have loaded anything, and in the middle of a training."""
    arguments = ("cluster", written(tmp_path, 10_000), "--name", "a", "--runs", tmp_path)
    history = tmp_path / "a" / "history.jsonl"
    with Running(*arguments, log=tmp_path / "log.txt") as server:
        until = time.monotonic() + 120
        while len(nodes_of(tmp_path)) < NODES or (
            rounds and (not history.exists() or history.read_bytes().count(b"\n") < rounds)
        ):
            assert server.poll() is None, (tmp_path / "log.txt").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        os.kill(server.pid, signal.SIGKILL)
        until = time.monotonic() + 60
        while nodes_of(tmp_path):
            assert time.monotonic() < until, nodes_of(tmp_path)
            time.sleep(0.1)


@pytest.mark.faults
def test_a_server_killed_twenty_times(tmp_path: Path) -> None:
    """With TLS and keys; no round is lost or paid twice, and the nodes are never restarted."""
    rounds, port = 60, free_port()
    job = written(tmp_path, rounds)
    made = dynamite("keys", "n0", "n1", "--host", "127.0.0.1", "--folder", tmp_path / "keys")
    assert made.returncode == 0, made.stderr
    history = tmp_path / "a" / "history.jsonl"
    dice = random.Random(0)  # noqa: S311
    arguments: list[str | Path] = ["serve", job, "--name", "a", "--runs", tmp_path]
    arguments += ["--port", str(port), "--keys", tmp_path / "keys" / "server", "--wait", "60"]

    def played() -> int:
        return history.read_bytes().count(b"\n") if history.exists() else 0

    with ExitStack() as stack:
        nodes(stack, tmp_path, job, port, keys=True)
        for _ in range(20):
            before = played()
            with Running(*arguments, log=tmp_path / "server.log") as server:
                until = time.monotonic() + 60
                while played() <= before and server.poll() is None and time.monotonic() < until:
                    time.sleep(0.01)
                time.sleep(dice.uniform(0, 0.5))
                os.kill(server.pid, signal.SIGKILL)
            assert played() >= before
        with Running(*arguments, log=tmp_path / "server.log") as server:
            assert server.wait(300) == 0, (tmp_path / "server.log").read_text()
    check_ledger(tmp_path / "a", rounds)
