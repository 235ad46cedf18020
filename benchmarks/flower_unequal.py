"""Five unequal nodes: are they known for what they are after some rounds, and does that pay?

Each node has a network namespace of its own, whose link to the server has a set bandwidth (``tc
tbf``), and computes for a set share of the time. What a step takes without that is timed beside
the training, by a process of its own, as other work on the machine slows both. For Linux, as
root, in a namespace with nothing else in it::

    unshare -n python benchmarks/flower_unequal.py --data-dir DATA
"""

import argparse
import itertools
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dynamite_fl.control.system import System
from dynamite_fl.engine.flower.engine import FlowerEngine, Patience
from dynamite_fl.engine.flower.keys import make_keys, server_secrets
from dynamite_fl.engine.flower.link import Link
from dynamite_fl.engine.loop import Progress, begin, rounds
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.flower_command import job_client
from dynamite_fl.run_config import TrainingJob, load_training_job, make_training

SHARES = (0.2, 0.1, 0.05, 0.04, 0.02)  # so small that nodes on two cores are in nobody's way
SIZES = (1, 4, 16, 64, 256, 1024, 4096)  # of batches that are timed
MEGABITS = (2.0, 3.0, 1.0, 1.5, 1.25)
JOB = """
task = {{model = "perceptron", dataset = "mnist"}}

[partition]
kind = "dirichlet"
alpha = 0.3

[devices]
samples_per_second = [1, 1, 1, 1, 1]

[limits]
deadline = {deadline}
budget = 10000
cost_per_sample = 0.0001
cost_per_round = 1

[controller]
name = "{controller}"

[training]
learning_rate = 0.01
evaluate_every = 1000
"""


def command(*words: str) -> None:
    subprocess.run(words, check=True)  # noqa: S603


@contextmanager
def node(folder: Path, place: int, port: int, data_dir: Path) -> Iterator[None]:
    """A node in a namespace of its own, that waits for its link before it starts."""
    name, hub = f"n{place}", f"10.77.{place}.1"
    own = folder / name
    own.mkdir(exist_ok=True)
    options = ["--name", name, "--part", str(place), "--state", str(own / "state")]
    options += ["--keys", str(folder / "keys" / name), "--server", f"{hub}:{port}"]
    options += ["--cpu-share", str(SHARES[place]), "--data-dir", str(data_dir)]
    code = "input(); from dynamite_fl.cli import main; main()"
    words = ["unshare", "-n", sys.executable, "-c", code, "node", str(folder / "job.toml")]
    with (own / "log.txt").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            [*words, *options],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        time.sleep(0.5)  # until it is in its namespace
        connect(place, process.pid)
        assert process.stdin is not None  # noqa: S101
        process.stdin.write(b"\n")
        process.stdin.close()
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def connect(place: int, process: int) -> None:
    """A link to the namespace of a process, with the place's bandwidth both ways."""
    near, far = f"hub{place}", f"node{place}"
    inside = ("nsenter", "-t", str(process), "-n")
    limit = ("root", "tbf", "rate", f"{MEGABITS[place]}mbit", "burst", "5kb", "latency", "2s")
    command("ip", "link", "add", near, "type", "veth", "peer", "name", far)
    command("ip", "link", "set", far, "netns", str(process))
    command("ip", "addr", "add", f"10.77.{place}.1/24", "dev", near)
    command("ip", "link", "set", near, "up")
    command(*inside, "ip", "addr", "add", f"10.77.{place}.2/24", "dev", far)
    command(*inside, "ip", "link", "set", far, "up")
    command(*inside, "ip", "link", "set", "lo", "up")
    command("tc", "qdisc", "add", "dev", near, *limit)
    command(*inside, "tc", "qdisc", "add", "dev", far, *limit)


def trained(job: TrainingJob, folder: Path, data_dir: Path) -> tuple[Progress, int, float]:
    """How a training ended, the most bytes that a round sent, and the last model's accuracy."""
    made = make_training(job, data_dir)
    assert isinstance(made.engine, SimulatedEngine)  # noqa: S101
    with (
        Link("0.0.0.0", 0, server_secrets(folder / "keys" / "server")) as link,  # noqa: S104
        ExitStack() as running,
    ):
        for place in range(len(SHARES)):
            running.enter_context(node(folder, place, link.port, data_dir))
        engine = FlowerEngine(
            link.grid,
            made.engine.task,
            len(SHARES),
            made.engine.learning_rate,
            registered=link.registered,
            patience=Patience(join_seconds=180.0, least_nodes=len(SHARES)),
        )
        training = replace(made, engine=engine, fleet=engine.enroll())
        progress = begin(training)
        most = 0
        for latest, played in rounds(training, progress):
            progress = latest
            most = max(most, 0 if played is None else played.outcome.sent_bytes)
        accuracy = engine.evaluate(progress.weights, progress.ledger.rounds).accuracy
    return progress, most, accuracy


def time_steps(job: TrainingJob, data_dir: Path, over: Event, found: Any) -> None:
    """Until it is over, time gradients on batches of all sizes, for a tenth of the time."""
    torch.set_num_threads(1)
    client, seconds = job_client(job, data_dir, 0), dict[int, list[float]]()
    weights = client.model.first_weights
    for size in itertools.cycle(SIZES):
        rows = torch.randint(len(client.targets), (size,))
        began = time.perf_counter()
        client.model.gradient(weights, client.inputs[rows], client.targets[rows])
        took = time.perf_counter() - began
        seconds.setdefault(size, []).append(took)
        if over.wait(9 * took):
            break
    found.put({size: float(np.mean(each[1:])) for size, each in seconds.items()})


@contextmanager
def timed_steps(job: TrainingJob, data_dir: Path) -> Iterator[dict[int, float]]:
    """What steps took in the meantime, by their batch sizes; known when it is over."""
    processes, steps = multiprocessing.get_context("spawn"), dict[int, float]()
    over, found = processes.Event(), processes.Queue()
    timing = processes.Process(target=time_steps, args=(job, data_dir, over, found), daemon=True)
    timing.start()
    try:
        yield steps
    finally:
        over.set()
        steps |= found.get(timeout=60)
        timing.join()


def show_estimates(system: System, sent_bytes: int, steps: dict[int, float]) -> None:
    """Estimates beside what was set: bytes at a bandwidth, and a share of the time."""
    sent = sent_bytes / len(SHARES)
    for place, (share, rate) in enumerate(zip(SHARES, MEGABITS, strict=True)):
        batch = float(system.steps.size[place])  # the mean of those that were seen
        step = float(np.interp(batch, sorted(steps), [steps[size] for size in sorted(steps)]))
        step /= share
        estimate = system.step_overhead[place] + batch / system.samples_per_second[place]
        comm, moved = system.comm_seconds[place], sent * 8 / (rate * 1e6)
        print(
            f"n{place}: a step on {batch:.0f} {1e3 * estimate:.1f} ms, set {1e3 * step:.1f} ms "
            f"({estimate / step - 1:+.0%}); communication {comm:.2f} s, "
            f"set {moved:.2f} s ({comm / moved - 1:+.0%})"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--controllers", default="dynamite-feedback,dynamite,fedavg")
    parser.add_argument("--deadline", type=float, default=120.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    command("ip", "link", "set", "lo", "up")
    hosts = [f"10.77.{place}.1" for place in range(len(SHARES))]
    for controller in arguments.controllers.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            text = JOB.format(deadline=arguments.deadline, controller=controller)
            (folder / "job.toml").write_text(text)
            job = load_training_job(folder / "job.toml")
            make_keys(folder / "keys", hosts, [f"n{place}" for place in range(len(SHARES))])
            with timed_steps(job, arguments.data_dir) as steps:
                progress, most, accuracy = trained(job, folder, arguments.data_dir)
            ledger = progress.ledger
            print(
                f"{controller}: {accuracy:.1%} after {ledger.rounds} rounds, {ledger.seconds:.1f} "
                f"of {arguments.deadline:g} s, cost {ledger.cost:.0f}, ended by {progress.ended}, "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            control = progress.control
            show_estimates(getattr(control, "system", control), most, steps)


if __name__ == "__main__":
    main()
