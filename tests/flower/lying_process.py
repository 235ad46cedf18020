"""A node that lies as the file ``lie.txt`` says, in a process of its own.

python -m tests.flower.lying_process SERVER CLIENT FOLDER KEYS: nodes have every third sample, so
that a training without one of them reaches the same accuracy.
"""

import logging
import signal
import sys
from pathlib import Path

import numpy as np
from flwr.app import Context, Message

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.flower.keys import read_node_keys
from dynamite_fl.flower.node import Node
from tests.flower.lies import lying
from tests.flower.local_grid import App
from tests.trainings import digits

NODES, LIAR = 3, 1


def client(index: int) -> Client:
    """Return the client of a node."""
    task = digits("perceptron")
    rows = np.arange(len(task.train))[index::NODES]
    return Client(FlatModel(task, 0), task.train, rows, seed=0)


def main(server: str, index: str, folder: str, keys: str) -> None:
    """Run the node."""
    logging.basicConfig(level=logging.INFO)
    node = Node(server, {"name": f"device {int(index) + 1}"}, read_node_keys(Path(keys)))
    signal.signal(signal.SIGTERM, lambda *_: node.leave.set())
    honest = client_app(lambda _: client(int(index)), Path(folder) / index)
    liars: dict[str, App] = {}
    order = Path(folder) / "lie.txt"

    def handle(message: Message, context: Context) -> Message:
        lie = order.read_text() if int(index) == LIAR and order.exists() else ""
        if not lie:
            return honest(message, context)
        if lie not in liars:
            liars[lie] = lying(honest, lie)
        return liars[lie](message, context)

    node.run(handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
