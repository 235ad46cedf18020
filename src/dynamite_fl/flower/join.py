"""Joining a training as a node, which is what ``dynamite node`` does."""

import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.flower.job_parts import build_client
from dynamite_fl.flower.keys import read_node_keys
from dynamite_fl.flower.node import Node
from dynamite_fl.job.training import TrainingJob

SECONDS_TO_LEAVE = 10.0  # that a node of a cluster has before it is killed


@dataclass(frozen=True)
class NodeOptions:
    """How a node takes part.

    Attributes:
        server: The server's address and port, such as ``training.example.org:9092``.
        name: The name of the device.
        state: The folder for what the device keeps from round to round.
        part: The part of the job's partition that the node has, from 0; None for all training
            data of the job's task.
        incoming: The folder in which the node's samples arrive, instead of the job's data.
        keys: The node's folder made by ``dynamite keys``; None for a server on this machine.
        cpu_share: The share of the time in which the node computes, above 0 and at most 1.
        data_dir: The folder of the datasets; None for the default folder.
    """

    server: str
    name: str
    state: Path
    part: int | None = None
    incoming: Path | None = None
    keys: Path | None = None
    cpu_share: float = 1.0
    data_dir: Path | None = None


def join(job: TrainingJob, options: NodeOptions, leave: threading.Event) -> None:
    """Take part in a training until ``leave`` is set; reconnect whenever the connection is lost.

    Raises:
        InvalidInput: The job, the data or the keys cannot be used.
    """
    keys = None if options.keys is None else read_node_keys(options.keys)
    client = build_client(job, options.data_dir, options.part, options.incoming)
    config = {"name": options.name, "cpu_share": options.cpu_share}
    node = Node(options.server, config, keys, leave)
    node.run(client_app(lambda _: client, options.state))


def leave_at_end_of_input(leave: threading.Event) -> None:
    """Start a thread that makes a node leave when its standard input ends.

    A cluster keeps this input open, so it ends when the cluster's process does, even if that is
    killed. Nobody waits for the round of the node then, so the process ends after some seconds
    even if the round is not finished; the files of the node's state are always complete.
    """

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):  # unlike sys.stdin, it takes no lock
            pass
        leave.set()
        time.sleep(SECONDS_TO_LEAVE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
