"""Measure how well the speeds of five unequal nodes are estimated, and what accuracy they reach.

Each node has a network namespace of its own. Its link to the server has a set bandwidth (``tc
tbf``), and it computes for a set share of the time. A separate process measures during the
training how long a step takes without these limits, because other work on the machine slows both.
The benchmark needs Linux, root, and a network namespace with nothing else in it::

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

from dynamite_fl.control.estimate.speed import SpeedEstimates
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.job_parts import build_client
from dynamite_fl.flower.keys import make_keys, read_server_keys
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.progress import Progress

SHARES = (0.2, 0.1, 0.05, 0.04, 0.02)  # so small that the nodes do not slow each other on two cores
SIZES = (1, 4, 16, 64, 256, 1024, 4096)  # batch sizes whose steps are timed
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
def node(folder: Path, index: int, port: int, data_dir: Path) -> Iterator[None]:
    """Run a node in a namespace of its own; it starts when its link is ready."""
    name, hub = f"n{index}", f"10.77.{index}.1"
    node_folder = folder / name
    node_folder.mkdir(exist_ok=True)
    options = ["--name", name, "--part", str(index), "--state", str(node_folder / "state")]
    options += ["--keys", str(folder / "keys" / name), "--server", f"{hub}:{port}"]
    options += ["--cpu-share", str(SHARES[index]), "--data-dir", str(data_dir)]
    code = "input(); from dynamite_fl._cli.main import main; main()"
    words = ["unshare", "-n", sys.executable, "-c", code, "node", str(folder / "job.toml")]
    with (node_folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            [*words, *options],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        time.sleep(0.5)  # until its namespace exists
        connect(index, process.pid)
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


def connect(index: int, process: int) -> None:
    """Link the namespace of a process to the server, with the node's bandwidth both ways."""
    near, far = f"hub{index}", f"node{index}"
    inside = ("nsenter", "-t", str(process), "-n")
    limit = ("root", "tbf", "rate", f"{MEGABITS[index]}mbit", "burst", "5kb", "latency", "2s")
    command("ip", "link", "add", near, "type", "veth", "peer", "name", far)
    command("ip", "link", "set", far, "netns", str(process))
    command("ip", "addr", "add", f"10.77.{index}.1/24", "dev", near)
    command("ip", "link", "set", near, "up")
    command(*inside, "ip", "addr", "add", f"10.77.{index}.2/24", "dev", far)
    command(*inside, "ip", "link", "set", far, "up")
    command(*inside, "ip", "link", "set", "lo", "up")
    command("tc", "qdisc", "add", "dev", near, *limit)
    command(*inside, "tc", "qdisc", "add", "dev", far, *limit)


def trained(job: TrainingJob, folder: Path, data_dir: Path) -> tuple[Progress, int, float]:
    """Train; return the progress, the most bytes sent in a round, and the final accuracy."""
    simulated = build_training(job, data_dir)
    assert isinstance(simulated.engine, SimulatedEngine)  # noqa: S101
    with (
        SuperLink("0.0.0.0", 0, read_server_keys(folder / "keys" / "server")) as link,  # noqa: S104
        ExitStack() as running,
    ):
        for index in range(len(SHARES)):
            running.enter_context(node(folder, index, link.port, data_dir))
        engine = FlowerEngine(
            link.grid,
            simulated.engine.task,
            len(SHARES),
            registered=link.registered,
            timeouts=Timeouts(join_seconds=180.0),
            min_nodes=len(SHARES),
        )
        training = replace(simulated, engine=engine, fleet=engine.enroll())
        progress = begin(training)
        max_bytes = 0
        for latest, played in rounds(training, progress):
            progress = latest
            max_bytes = max(max_bytes, 0 if played is None else played.outcome.sent_bytes)
        accuracy = engine.evaluate(progress.weights, progress.ledger.rounds).metrics["accuracy"]
    return progress, max_bytes, accuracy


def time_steps(job: TrainingJob, data_dir: Path, over: Event, results: Any) -> None:
    """Time gradients on batches of all sizes until it is over, in a tenth of the time."""
    torch.set_num_threads(1)
    client, seconds = build_client(job, data_dir, 0), dict[int, list[float]]()
    weights = client.model.first_weights
    for size in itertools.cycle(SIZES):
        rows = torch.randint(len(client.samples), (size,)).numpy()
        began = time.perf_counter()
        client.model.gradient(weights, client.samples.batch(rows))
        took = time.perf_counter() - began
        seconds.setdefault(size, []).append(took)
        if over.wait(9 * took):
            break
    results.put({size: float(np.mean(times[1:])) for size, times in seconds.items()})


@contextmanager
def timed_steps(job: TrainingJob, data_dir: Path) -> Iterator[dict[int, float]]:
    """Time steps in the context; at its end the dictionary has their seconds by batch size."""
    processes, steps = multiprocessing.get_context("spawn"), dict[int, float]()
    over, results = processes.Event(), processes.Queue()
    timing = processes.Process(target=time_steps, args=(job, data_dir, over, results), daemon=True)
    timing.start()
    try:
        yield steps
    finally:
        over.set()
        steps |= results.get(timeout=60)
        timing.join()


def show_estimates(speeds: SpeedEstimates, sent_bytes: int, steps: dict[int, float]) -> None:
    """Print the estimated seconds beside those that bandwidth and CPU share lead to."""
    sent = sent_bytes / len(SHARES)
    for index, (share, rate) in enumerate(zip(SHARES, MEGABITS, strict=True)):
        batch = float(speeds.steps.size[index])  # the mean of the batch sizes used
        step = float(np.interp(batch, sorted(steps), [steps[size] for size in sorted(steps)]))
        step /= share
        estimate = speeds.step_overhead[index] + batch / speeds.samples_per_second[index]
        comm, moved = speeds.comm_seconds[index], sent * 8 / (rate * 1e6)
        print(
            f"n{index}: a step on {batch:.0f} {1e3 * estimate:.1f} ms, set {1e3 * step:.1f} ms "
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
    hosts = [f"10.77.{index}.1" for index in range(len(SHARES))]
    for controller in arguments.controllers.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            text = JOB.format(deadline=arguments.deadline, controller=controller)
            (folder / "job.toml").write_text(text)
            job = load_training_job(folder / "job.toml")
            make_keys(folder / "keys", hosts, [f"n{index}" for index in range(len(SHARES))])
            with timed_steps(job, arguments.data_dir) as steps:
                progress, max_bytes, accuracy = trained(job, folder, arguments.data_dir)
            ledger = progress.ledger
            print(
                f"{controller}: {accuracy:.1%} after {ledger.rounds} rounds, {ledger.seconds:.1f} "
                f"of {arguments.deadline:g} s, cost {ledger.cost:.0f}, ended by {progress.ended}, "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            show_estimates(progress.speeds, max_bytes, steps)


if __name__ == "__main__":
    main()
