"""A node in a process of its own: python -m tests.engine.flower.a_node SERVER PLACE FOLDER."""

import os
import signal
import sys
import time
from pathlib import Path

from flwr.app import Context, Message

from dynamite_fl.engine.flower.app import client_app
from dynamite_fl.engine.flower.node import Node
from tests.engine.flower.fleet import client


def main(server: str, place: str, folder: str, ca: str = "", key: str = "") -> None:
    """Faults are files in the folder: ``hang`` and ``die`` happen in mid-round."""
    own = Path(folder) / place
    config = {"name": f"device {int(place) + 1}"}
    node = Node(server, config, Path(ca) if ca else None, Path(key) if key else None)
    signal.signal(signal.SIGTERM, lambda *_: node.leave.set())
    good = client_app(lambda _: client(int(place)), own)

    def play(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "train":
            if (own / "die").exists():
                (own / "die").unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            while (own / "hang").exists():
                time.sleep(0.05)
        return good(message, context)

    node.run(play)


if __name__ == "__main__":
    main(*sys.argv[1:])
