"""A SuperLink here and nodes in processes of their own, which end with their context."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from dynamite_fl.engine.flower.engine import FlowerEngine, Patience
from dynamite_fl.engine.flower.keys import make_keys, node_secrets, server_secrets
from dynamite_fl.engine.flower.link import Link
from tests.engine.trainings import RATE, digits

ENVIRONMENT = {
    **os.environ,
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "OMP_NUM_THREADS": "1",
}


class Machines:
    """Nodes ``device 1`` to ``device n``, with TLS and keys, and faults that they can have."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder = folder
        self.keys = folder / "keys"
        self.nodes = nodes
        make_keys(self.keys, ["127.0.0.1"], [self.name(place) for place in range(nodes)])
        self.link = Link("127.0.0.1", 0, server_secrets(self.keys / "server"))
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.log = (folder / "nodes.log").open("w+b")

    def __enter__(self) -> "Machines":
        self.link.__enter__()
        for place in range(self.nodes):
            self.start(place)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.running.values():
            process.kill()
            process.wait(10)
        self.link.__exit__()
        self.log.seek(0)
        sys.stderr.write(self.log.read().decode())  # pytest shows it if the test fails
        self.log.close()

    @staticmethod
    def name(place: int) -> str:
        return f"device {place + 1}"

    def start(self, place: int, keys: str | None = None) -> subprocess.Popen[bytes]:
        """A node for a place, with its own keys or those of another."""
        secrets = node_secrets(self.keys / (keys or self.name(place)))
        module = "tests.engine.flower.a_node"
        server = f"127.0.0.1:{self.link.port}"
        arguments = [server, str(place), str(self.folder), str(secrets.ca), str(secrets.key)]
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env={**ENVIRONMENT, "FLWR_HOME": str(self.folder / "flwr")},
            stdout=self.log,
            stderr=self.log,
        )
        self.running[place] = process
        return process

    def engine(self, **patience: float) -> FlowerEngine:
        """An engine that all nodes have joined."""
        settings = Patience(**{"join_seconds": 180.0, **patience})  # type: ignore[arg-type]
        engine = FlowerEngine(
            self.link.grid,
            digits("perceptron"),
            self.nodes,
            RATE,
            registered=self.link.registered,
            patience=settings,
        )
        engine.enroll()
        assert len(engine.roster.guests) == self.nodes
        return engine

    @contextmanager
    def fault(self, place: int, kind: str) -> Iterator[None]:
        """Have a node ``die`` or ``hang`` in its next round."""
        sign = self.folder / str(place) / kind
        sign.parent.mkdir(exist_ok=True)
        sign.touch()
        yield
        sign.unlink(missing_ok=True)
