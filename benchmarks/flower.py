"""Measure how long a round on real machines takes beyond computing: ``make bench-flower``.

Three nodes on this machine, with TLS and keys, train a model of 784 x 10 weights. The benchmark is
then repeated with stock SuperNodes.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.keys import make_keys, read_server_keys
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import load_training_job
from dynamite_fl.task import losses, models
from dynamite_fl.task.task import Task
from dynamite_fl.training.loop import begin, run_round

NODES = 3
TARGET = 0.6  # seconds per round beyond the computing time of the slowest node
JOB = """
task = "flower:random_images"

[partition]
kind = "wang"
case = 1

[devices]
samples_per_second = [1, 1, 1]

[limits]
deadline = 100000
budget = 1000000
cost_per_sample = 0.001
cost_per_round = 1

[controller]
name = "fedavg"

[training]
learning_rate = 0.01
evaluate_every = 1000
"""


def random_images() -> Task:
    """Return a task with random data, since the benchmark measures no accuracy."""
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(3000, 784, generator=random)
    targets = torch.randint(0, 10, (3000,), generator=random)
    return Task(
        name="random images",
        model=lambda: models.softmax_regression(784, 10),
        loss=losses.cross_entropy,
        train_data=(inputs, targets),
        test_data=(inputs[:1], targets[:1]),
    )


@contextmanager
def started(words: list[str], folder: Path) -> Iterator[None]:
    """Run a command, and end all its processes with the context."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).parent),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(folder / "flwr"),
    }
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            words, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def persistent_node(job: Path, folder: Path, part: int, port: int) -> list[str]:
    """Return the command of a node that stays, ``dynamite node``."""
    state = folder / f"n{part}" / "state"
    code = "from dynamite_fl._cli.main import main; main()"
    options = ["--name", f"n{part}", "--part", str(part), "--state", str(state)]
    options += ["--keys", str(folder / "keys" / f"n{part}"), "--server", f"127.0.0.1:{port}"]
    return [sys.executable, "-c", code, "node", str(job), *options]


def stock_node(job: Path, folder: Path, part: int, port: int) -> list[str]:
    """Return the command of a stock SuperNode, which starts a process for every message."""
    state, keys = folder / f"n{part}" / "state", folder / "keys" / f"n{part}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        runtime = server.getsockname()[1]
    config = f'name="n{part}" part={part} state="{state}" job="{job}"'
    command = str(Path(sys.executable).parent / "flower-supernode")
    options = ["--superlink", f"127.0.0.1:{port}", "--root-certificates", str(keys / "ca.pem")]
    options += ["--auth-supernode-private-key", str(keys / "node.key"), "--node-config", config]
    return [command, *options, "--host", "127.0.0.1", "--port", str(runtime)]


def overheads(kind: str, rounds: int, folder: Path) -> list[float]:
    """Return the seconds of each round beyond the computing time of the slowest node."""
    job_file = folder / "job.toml"
    job_file.write_text(JOB)
    names = [f"n{part}" for part in range(NODES)]
    make_keys(folder / "keys", ["127.0.0.1"], names)
    keys = read_server_keys(folder / "keys" / "server")
    simulated = build_training(load_training_job(job_file))
    node = persistent_node if kind == "persistent" else stock_node
    with SuperLink("127.0.0.1", 0, keys) as link, ExitStack() as running:
        for part, name in enumerate(names):
            (folder / name).mkdir()
            words = node(job_file, folder, part, link.port)
            running.enter_context(started(words, folder / name))
        engine = FlowerEngine(
            link.grid,
            random_images(),
            NODES,
            registered=link.registered,
            timeouts=Timeouts(min_round_seconds=120.0, join_seconds=180.0),
            min_nodes=NODES,
        )
        training = replace(simulated, engine=engine, fleet=engine.enroll())
        progress, seconds = begin(training), []
        for _ in range(rounds):
            progress, played = run_round(training, progress)
            if played is None or not played.outcome.report.present.all():
                raise RuntimeError(f"a node was absent: see the logs in {folder}")
            report = played.outcome.report
            computing = report.local_steps * float(np.max(report.step_seconds))
            seconds.append(played.outcome.seconds - computing)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--stock-rounds", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path(__file__).parent))
    for kind, rounds in (("persistent", arguments.rounds), ("stock", arguments.stock_rounds)):
        if not rounds:
            continue
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            seconds = overheads(kind, rounds, Path(folder))
            low, median, high = np.quantile(seconds[1:], [0.25, 0.5, 0.75])
            verdict = ""
            if kind == "persistent":
                verdict = f", target {TARGET:g}: {'kept' if median <= TARGET else 'missed'}"
            print(
                f"{kind} nodes: {median:.2f} s per round ({low:.2f}-{high:.2f}) beyond computing, "
                f"{rounds} rounds, load {os.getloadavg()[0]:.1f}, "
                f"{time.perf_counter() - began:.0f} s in all{verdict}"
            )


if __name__ == "__main__":
    main()
