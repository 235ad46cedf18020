"""The command ``dynamite serve``."""

import os
import random
import signal
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from rich.console import Console

from dynamite_fl._cli.serve import train_with_nodes
from dynamite_fl._progress import RunView
from dynamite_fl.job.runs import opened_run
from dynamite_fl.job.training import load_training_job
from dynamite_fl.task.fingerprint import fingerprint
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
from tests.flower.fleet import CLIENTS, grid
from tests.processes import HANG_SECONDS, wait_until
from tests.trainings import digits

KILLS = 6


def test_no_node_connects(tmp_path: Path) -> None:
    options = ["--name", "a", "--runs", tmp_path, "--port", "0", "--wait", "0.5"]
    output = refusal("serve", write_job(tmp_path, 5), *options)
    assert "for this machine only" in output
    assert "Waiting for 2 nodes: 0 connected, 2 missing" in output
    assert "too few nodes have connected within 0.5 s" in output


def test_a_job_for_more_nodes_than_there_are_keys(tmp_path: Path) -> None:
    """The missing node can never come, so the server says so at once."""
    assert run_command("keys", "n0", "--folder", tmp_path / "keys").returncode == 0
    options = ["--name", "a", "--runs", tmp_path, "--port", "0", "--wait", "0.5"]
    options += ["--keys", tmp_path / "keys" / "server"]
    advice = r"2 devices, but there are keys for 1 node only: give --set 'devices={clients=1}'"
    with pytest.warns(UserWarning, match=advice):
        assert "for 1 node with keys" in refusal("serve", write_job(tmp_path, 5), *options)


def test_other_machines_are_served_only_with_keys(tmp_path: Path) -> None:
    command = ["serve", write_job(tmp_path, 5), "--name", "a", "--runs", tmp_path]
    assert "make keys with `dynamite keys`" in refusal(*command, "--host", "0.0.0.0")  # noqa: S104
    assert "is not the server's folder" in refusal(*command, "--keys", tmp_path)


def test_a_served_run_stays_a_run_on_real_machines(tmp_path: Path) -> None:
    """The server goes on with it, and nobody simulates the rest of it."""
    job = load_training_job(
        overrides=[
            "limits.rounds=3",
            f"devices={{clients={CLIENTS}}}",
            "training.learning_rate=0.1",
        ]
    )
    task, folder, nodes = digits("perceptron"), RunFolder(tmp_path / "a"), grid(tmp_path)
    link: Any = SimpleNamespace(
        grid=nodes, registered={}, rules=SimpleNamespace(expect_models_of=lambda _: None)
    )

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for show in (stop, RunView.show):  # the first server ends after a round
        with (
            suppress(KeyboardInterrupt),
            patch.object(RunView, "show", show),
            RunView(Console(quiet=True), "a") as view,
            opened_run(folder, job, fingerprint(task), task.leading_metric),
        ):
            train_with_nodes(job, task, folder, link, view, min_nodes=CLIENTS, wait=HANG_SECONDS)
        assert folder.read_identity().is_real
        assert folder.nodes.exists()
    assert rounds_played(folder.path) == 3
    assert "is a run on real machines" in refusal("resume", folder.path)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def start_nodes(stack: ExitStack, folder: Path, job: Path, port: int) -> None:
    for part in range(NODES):
        name = f"n{part}"
        options = ["--server", f"127.0.0.1:{port}", "--name", name, "--part", str(part)]
        options += ["--state", str(folder / name), "--keys", str(folder / "keys" / name)]
        stack.enter_context(running("node", job, *options, log=folder / f"{name}.log"))


@pytest.mark.faults
@pytest.mark.slow
def test_a_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    """With TLS and keys: no round is lost or charged twice, and the nodes are not restarted."""
    rounds, port = 30, free_port()
    job, run, log = write_job(tmp_path, rounds), tmp_path / "a", tmp_path / "server.log"
    keys = run_command("keys", "n0", "n1", "--host", "127.0.0.1", "--folder", tmp_path / "keys")
    assert keys.returncode == 0, keys.stderr
    chance = random.Random(0)  # noqa: S311
    command: list[str | Path] = ["serve", job, "--name", "a", "--runs", tmp_path]
    command += ["--port", str(port), "--keys", tmp_path / "keys" / "server"]
    with ExitStack() as stack:
        start_nodes(stack, tmp_path, job, port)
        for _ in range(KILLS):
            before = rounds_played(run)
            with running(*command, log=log) as server:
                wait_until(
                    lambda before=before, server=server: (  # type: ignore[misc]
                        rounds_played(run) > before or server.poll() is not None
                    ),
                    log.read_text,
                )
                time.sleep(chance.uniform(0, 0.5))
                os.kill(server.pid, signal.SIGKILL)
            assert rounds_played(run) >= before
        with running(*command, log=log) as server:
            assert server.wait(HANG_SECONDS) == 0, log.read_text()
    check_history(run, rounds)
