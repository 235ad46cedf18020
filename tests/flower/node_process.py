"""A node in a process of its own: python -m tests.flower.node_process SERVER CLIENT FOLDER KEYS."""

import logging
import os
import signal
import sys
import time
from pathlib import Path

from flwr.app import Context, Message

from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.flower.keys import read_node_keys
from dynamite_fl.flower.node import Node
from tests.flower.fleet import client


def main(server: str, index: str, folder: str, keys: str) -> None:
    """Run the node; the files ``hang`` and ``die`` in its folder cause these faults in a round."""
    logging.basicConfig(level=logging.INFO)
    state = Path(folder) / index
    node = Node(server, {"name": f"device {int(index) + 1}"}, read_node_keys(Path(keys)))
    signal.signal(signal.SIGTERM, lambda *_: node.leave.set())
    app = client_app(lambda _: client(int(index)), state)

    def handle(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "train":
            if (state / "die").exists():
                (state / "die").unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            while (state / "hang").exists():
                time.sleep(0.05)
        return app(message, context)

    node.run(handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
