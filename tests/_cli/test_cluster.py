"""The command ``dynamite cluster``."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from dynamite_fl.job.runs import load_run
from dynamite_fl.training.run_folder import RunFolder
from tests._cli.machines import (
    NODES,
    check_history,
    refusal,
    rounds_played,
    run_command,
    running,
    write_job,
)
from tests.processes import wait_until


def running_nodes(folder: Path) -> list[str]:
    """Return the command lines of a cluster's nodes that are running."""
    command = ["ps", "-ww", "-eo", "args"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if str(folder) in line and "--until-eof" in line]


@pytest.mark.parametrize("shares", ["1,0", "2", "fast", ""])
def test_shares_that_cannot_be_used(tmp_path: Path, shares: str) -> None:
    output = refusal("cluster", "--name", "a", "--runs", tmp_path, "--cpu-shares", shares)
    assert f"--cpu-shares is '{shares}': it must be numbers above 0, at most 1" in output


@pytest.mark.parametrize("count", [1, 3])
def test_the_number_of_nodes_is_that_of_the_devices(tmp_path: Path, count: int) -> None:
    command = ["cluster", write_job(tmp_path, 3), "--name", "a", "--runs", tmp_path, "-n", count]
    output = refusal(*command, "--wait", 0)
    assert f"Nodes started: {count}." in output
    names = ", ".join(f"node-00{number}" for number in range(1, count + 1))
    assert f"0 connected, 1 missing ({'' if count == 1 else 'any of '}{names})" in output
    assert load_run(RunFolder(tmp_path / "a")).tables["devices"] == {"clients": count}
    assert not running_nodes(tmp_path)


@pytest.mark.slow
def test_a_cluster_of_fewer_nodes_than_the_job_has_devices(tmp_path: Path) -> None:
    """The data is then split among them, and nobody is absent."""
    job = write_job(tmp_path, 3)
    command = ("cluster", job, "--name", "a", "--runs", tmp_path, "-n", "1")
    result = run_command(*command, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["absent"] == []
    assert "Waiting for 1 node: 0 connected, 1 missing (node-001)" in result.stderr
    assert run_command(*command, "--json").stdout == result.stdout  # it is the same job again
    assert not running_nodes(tmp_path)
    (log,) = (tmp_path / "a" / "nodes").glob("*/log.txt")
    assert "Fatal" not in log.read_text()


@pytest.mark.slow
def test_a_cluster(tmp_path: Path) -> None:
    job = write_job(tmp_path, 8)
    command = ("cluster", job, "--name", "a", "--runs", tmp_path, "--cpu-shares", "1,0.2")
    result = run_command(*command, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["round"] == 8
    check_history(tmp_path / "a", 8)
    again = run_command(*command, "--json")  # it has ended, so nothing is started
    assert again.stdout == result.stdout
    assert run_command("resume", tmp_path / "a").returncode == 2
    assert not running_nodes(tmp_path)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("rounds", [0, 2])
def test_nodes_end_with_a_server_that_is_killed(tmp_path: Path, rounds: int) -> None:
    """They end before they have loaded anything, and in the middle of a training."""
    job, log = write_job(tmp_path, 10_000), tmp_path / "log.txt"
    with running("cluster", job, "--name", "a", "--runs", tmp_path, log=log) as server:
        wait_until(
            lambda: (
                len(running_nodes(tmp_path)) == NODES and rounds_played(tmp_path / "a") >= rounds
            ),
            log.read_text,
        )
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not running_nodes(tmp_path), lambda: running_nodes(tmp_path))
