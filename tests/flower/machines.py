"""A SuperLink in this process and nodes in processes of their own, which end with the context."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.keys import make_keys, read_server_keys
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.flower.timeouts import Timeouts
from tests.processes import HANG_SECONDS, wait_until
from tests.trainings import digits

ENVIRONMENT = {
    **os.environ,
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "OMP_NUM_THREADS": "1",
}


class Machines:
    """Nodes ``device 1`` to ``device n``, with TLS and keys, and faults that they can have."""

    def __init__(self, folder: Path, nodes: int, module: str = "tests.flower.node_process") -> None:
        self.module = module
        self.folder = folder
        self.keys = folder / "keys"
        self.nodes = nodes
        make_keys(self.keys, ["127.0.0.1"], [self.name(client) for client in range(nodes)])
        self.link = SuperLink("127.0.0.1", 0, read_server_keys(self.keys / "server"))
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.log = folder / "nodes.log"

    def __enter__(self) -> "Machines":
        self.link.__enter__()
        for client in range(self.nodes):
            self.start(client)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
            process.wait(HANG_SECONDS)
        self.link.__exit__()
        sys.stderr.write(self.log.read_text())  # pytest shows it if the test fails

    @staticmethod
    def name(client: int) -> str:
        return f"device {client + 1}"

    def start(self, client: int, keys: str | None = None) -> subprocess.Popen[bytes]:
        """Start the node of a client, with its own keys or those in another folder."""
        server = f"127.0.0.1:{self.link.port}"
        folder = str(self.keys / (keys or self.name(client)))
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", self.module, server, str(client), str(self.folder), folder],
                env={**ENVIRONMENT, "FLWR_HOME": str(self.folder / "flwr")},
                stdout=log,
                stderr=log,
            )
        self.running[client] = process
        return process

    def engine(self, *, round_seconds: float = HANG_SECONDS) -> FlowerEngine:
        """Return an engine that all nodes have joined; rounds may take ``round_seconds``."""
        engine = FlowerEngine(
            self.link.grid,
            digits("perceptron"),
            self.nodes,
            registered=self.link.registered,
            timeouts=Timeouts(0.0, round_seconds, join_seconds=HANG_SECONDS),
        )
        engine.enroll()
        assert len(engine.roster.connected) == self.nodes
        return engine

    def wait_for_all(self, engine: FlowerEngine) -> None:
        """Wait until all nodes are connected to an engine."""

        def are_connected() -> bool:
            engine.roster.update()
            return len(engine.roster.connected) == self.nodes

        wait_until(are_connected, lambda: engine.roster.connected_names)

    @contextmanager
    def fault(self, client: int, kind: str) -> Iterator[None]:
        """Make a node ``die`` or ``hang`` in its next round."""
        sign = self.folder / str(client) / kind
        sign.parent.mkdir(exist_ok=True)
        sign.touch()
        yield
        sign.unlink(missing_ok=True)
