"""One server with many light nodes on this machine: what a round costs the server.

    python benchmarks/flower_load.py [--nodes 20 50 100] [--rounds 10] [--per-process 25]

Nodes are real, with TLS and a key each, but several of them share a process. They learn digits with
softmax regression, two local steps on eight samples, so that the server is what takes time. The
table shows seconds of the processor that the server needs for a round, and its memory; the wall
clock depends on what else the machine does.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.keys import make_keys, read_node_keys, read_server_keys
from dynamite_fl.flower.node import Node
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.records import Plan
from dynamite_fl.task.registry import make_task
from dynamite_fl.training.engine import RoundOrder

PATIENCE = 600.0


def run_nodes(server: str, folder: Path, numbers: Sequence[int], nodes: int) -> None:
    """Run several nodes, each in a thread, until the input ends."""
    task, leave = make_task("softmax", "digits"), threading.Event()
    for number in numbers:
        rows = np.arange(len(task.train))[number::nodes]
        client = Client(FlatModel(task, 0), task.train, rows, seed=0)
        node = Node(
            server, {"name": f"node-{number}"}, read_node_keys(folder / f"node-{number}"), leave
        )
        app = client_app(lambda _, client=client: client, folder / f"state-{number}")  # type: ignore[misc]
        threading.Thread(target=node.run, args=(app,), daemon=True).start()
    sys.stdin.read()
    leave.set()


@contextmanager
def started(server: str, folder: Path, numbers: Sequence[int], nodes: int) -> Iterator[None]:
    """Start a process with several nodes, and end it."""
    words = [sys.executable, __file__, "--join", server, str(folder), str(nodes)]
    process = subprocess.Popen(  # noqa: S603  it is this program
        [*words, *map(str, numbers)],
        stdin=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with process:
        yield
        process.kill()


def measure(nodes: int, rounds: int, per_process: int) -> None:
    """Print a row of the table for so many nodes."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        make_keys(folder, ["127.0.0.1"], [f"node-{number}" for number in range(nodes)])
        link = running.enter_context(SuperLink("127.0.0.1", 0, read_server_keys(folder / "server")))
        for start in range(0, nodes, per_process):
            numbers = range(start, min(start + per_process, nodes))
            running.enter_context(started(f"127.0.0.1:{link.port}", folder, numbers, nodes))
        engine = FlowerEngine(
            link.grid,
            make_task("softmax", "digits"),
            nodes,
            registered=link.registered,
            timeouts=Timeouts(0.0, PATIENCE, PATIENCE),
        )
        engine.enroll()
        plan = Plan(rounds, 2, np.full(nodes, 8), seconds=1.0, cost=1.0, bound=1.0, binding=())
        weights = engine.first_weights()
        engine.run_round(order(1, weights, plan))  # the first one is not counted
        clock, processor, lost = time.monotonic(), time.process_time(), 0
        for index in range(2, rounds + 2):
            lost += int((~engine.run_round(order(index, weights, plan)).report.present).sum())
        clock, processor = time.monotonic() - clock, time.process_time() - processor
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {nodes} | {processor / rounds:.2f} | {1000 * processor / rounds / nodes:.1f} | "
        f"{clock / rounds:.2f} | {megabytes:.0f} | {lost} |",
        flush=True,
    )


def order(index: int, weights: object, plan: Plan) -> RoundOrder:
    """Return the order of a round for all nodes."""
    return RoundOrder(
        round_index=index,
        weights=weights,  # type: ignore[arg-type]
        plan=plan,
        cohort=np.arange(plan.batch_sizes.size),
        learning_rate=0.05,
        probe=False,
        remember=False,
        path=True,
        begins=0.0,
        seconds_left=PATIENCE,
    )


def main() -> None:
    if "--join" in sys.argv:
        server, folder, nodes, *numbers = sys.argv[2:]
        run_nodes(server, Path(folder), [int(number) for number in numbers], int(nodes))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, nargs="+", default=[20, 50, 100])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--per-process", type=int, default=25)
    arguments = parser.parse_args()
    print("| nodes | processor s a round | ms a node | wall s a round | MB | lost replies |")
    print("|---" * 6 + "|")
    for nodes in arguments.nodes:
        measure(nodes, arguments.rounds, arguments.per_process)


if __name__ == "__main__":
    main()
