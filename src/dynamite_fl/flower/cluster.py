"""Nodes in processes on this machine, which is what ``dynamite cluster`` adds to ``serve``."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dynamite_fl.flower.join import SECONDS_TO_LEAVE
from dynamite_fl.training.run_folder import RunFolder

_COMMAND = "from dynamite_fl._cli.main import main; main()"  # the command dynamite


def node_names(count: int) -> list[str]:
    """Return the names of the nodes of a cluster.

    Example:
        >>> node_names(2)
        ['node-001', 'node-002']
    """
    return [f"node-{number:03d}" for number in range(1, count + 1)]


@contextmanager
def started_nodes(
    folder: RunFolder,
    port: int,
    names: Sequence[str],
    cpu_shares: Sequence[float],
    data_dir: Path | None = None,
) -> Iterator[None]:
    """Start a node for each part of a job's data, and end them with the context.

    Each node has a folder ``nodes/NAME`` in the run folder, with its state and its ``log.txt``.

    Args:
        folder: The run folder, whose job the nodes read.
        port: The port of the server on this machine.
        names: The names of the nodes, one for each part.
        cpu_shares: The shares of the time in which nodes compute, repeated as often as needed.
        data_dir: The folder of the datasets; None for the default folder.
    """
    with ExitStack() as running:
        for part, name in enumerate(names):
            share = cpu_shares[part % len(cpu_shares)]
            running.enter_context(_started_node(folder, port, part, name, share, data_dir))
        yield


@contextmanager
def _started_node(
    folder: RunFolder, port: int, part: int, name: str, cpu_share: float, data_dir: Path | None
) -> Iterator[None]:
    node_folder = folder.path / "nodes" / name
    node_folder.mkdir(parents=True, exist_ok=True)
    options = ["--server", f"127.0.0.1:{port}", "--name", name, "--part", str(part)]
    options += ["--state", str(node_folder), "--cpu-share", str(cpu_share)]
    if data_dir is not None:
        options += ["--data-dir", str(data_dir)]
    with (node_folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603  it is this program
            [sys.executable, "-c", _COMMAND, "node", str(folder.job), "--until-eof", *options],
            stdin=subprocess.PIPE,  # it ends with this process, so the node leaves then
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches the server only, which ends its nodes
        )
    with process:
        try:
            yield
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a node to leave, and kill it if it does not."""
    process.terminate()
    try:
        process.wait(SECONDS_TO_LEAVE)
    except subprocess.TimeoutExpired:
        process.kill()
