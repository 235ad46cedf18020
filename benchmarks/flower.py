"""How long a round on real machines takes beyond computing: ``make bench-flower``.

Three nodes on loopback, with TLS and keys, train 784x10 weights; then stock SuperNodes do.
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

from dynamite_fl.engine.flower.engine import FlowerEngine, Patience
from dynamite_fl.engine.flower.keys import make_keys, server_secrets
from dynamite_fl.engine.flower.link import Link
from dynamite_fl.engine.loop import begin, play
from dynamite_fl.run_config import load_training_job, make_training
from dynamite_fl.task import losses, models
from dynamite_fl.task.task import Task

NODES = 3
TARGET = 0.6  # seconds a round beyond the slowest node's computing
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
    """What is learned does not matter here."""
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(3000, 784, generator=random)
    targets = torch.randint(0, 10, (3000,), generator=random)
    return Task(
        name="random images",
        make_model=lambda: models.softmax_regression(784, 10),
        loss=losses.cross_entropy,
        correct=losses.largest_is_target,
        train_inputs=inputs,
        train_targets=targets,
        test_inputs=inputs[:1],
        test_targets=targets[:1],
    )


@contextmanager
def started(words: list[str], folder: Path) -> Iterator[None]:
    """A command with all its processes, which are ended with the context."""
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


def persistent(job: Path, folder: Path, place: int, port: int) -> list[str]:
    own = folder / f"n{place}"
    code = "from dynamite_fl.cli import main; main()"
    options = ["--name", f"n{place}", "--part", str(place), "--state", str(own / "state")]
    options += ["--keys", str(folder / "keys" / f"n{place}"), "--server", f"127.0.0.1:{port}"]
    return [sys.executable, "-c", code, "node", str(job), *options]


def stock(job: Path, folder: Path, place: int, port: int) -> list[str]:
    own, keys = folder / f"n{place}", folder / "keys" / f"n{place}"
    with socket.create_server(("127.0.0.1", 0)) as found:
        runtime = found.getsockname()[1]
    config = f'name="n{place}" part={place} state="{own / "state"}" job="{job}"'
    command = str(Path(sys.executable).parent / "flower-supernode")
    options = ["--superlink", f"127.0.0.1:{port}", "--root-certificates", str(keys / "ca.pem")]
    options += ["--auth-supernode-private-key", str(keys / "node.key"), "--node-config", config]
    return [command, *options, "--host", "127.0.0.1", "--port", str(runtime)]


def overheads(kind: str, rounds: int, folder: Path) -> list[float]:
    """Seconds of each round beyond the slowest node's computing."""
    job_file = folder / "job.toml"
    job_file.write_text(JOB)
    names = [f"n{place}" for place in range(NODES)]
    make_keys(folder / "keys", ["127.0.0.1"], names)
    secrets = server_secrets(folder / "keys" / "server")
    made = make_training(load_training_job(job_file))
    with Link("127.0.0.1", 0, secrets) as link, ExitStack() as running:
        for place, name in enumerate(names):
            (folder / name).mkdir()
            words = (persistent if kind == "persistent" else stock)(
                job_file, folder, place, link.port
            )
            running.enter_context(started(words, folder / name))
        engine = FlowerEngine(
            link.grid,
            random_images(),
            NODES,
            0.01,
            registered=link.registered,
            patience=Patience(join_seconds=180.0, least_seconds=120.0, least_nodes=NODES),
        )
        training = replace(made, engine=engine, fleet=engine.enroll())
        progress, found = begin(training), []
        for _ in range(rounds):
            progress, played = play(training, progress)
            if played is None or not played.outcome.report.present.all():
                raise RuntimeError("a node was absent, see its log")
            report = played.outcome.report
            computing = report.local_steps * float(np.max(report.step_seconds))
            found.append(played.outcome.seconds - computing)
    return found


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
            found = overheads(kind, rounds, Path(folder))
            low, median, high = np.quantile(found[1:], [0.25, 0.5, 0.75])
            verdict = "" if kind == "stock" else f", target {TARGET:g}: "
            verdict += "" if kind == "stock" else ("kept" if median <= TARGET else "missed")
            print(
                f"{kind} nodes: {median:.2f} s a round ({low:.2f}-{high:.2f}) beyond computing, "
                f"{rounds} rounds, load {os.getloadavg()[0]:.1f}, "
                f"{time.perf_counter() - began:.0f} s in all{verdict}"
            )


if __name__ == "__main__":
    main()
