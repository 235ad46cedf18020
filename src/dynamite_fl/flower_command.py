"""What ``dynamite serve``, ``node`` and ``cluster`` do."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np
from flwr.app import Context
from rich.console import Console

from dynamite_fl.client.client import Client
from dynamite_fl.config import JobError
from dynamite_fl.engine.flower.app import client_app
from dynamite_fl.engine.flower.engine import FlowerEngine, Patience
from dynamite_fl.engine.flower.keys import node_secrets, server_secrets
from dynamite_fl.engine.flower.link import Link
from dynamite_fl.engine.flower.node import Node
from dynamite_fl.engine.loop import Training
from dynamite_fl.engine.run import RunFolder
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.files import write_atomically
from dynamite_fl.run_command import show_run, train
from dynamite_fl.run_config import (
    TrainingJob,
    load_training_job,
    make_training,
    to_toml,
    trackers_of,
)

_SECONDS_TO_LEAVE = 10.0  # that nodes of a cluster have before they are killed


@dataclass(frozen=True)
class Serving:
    """What ``serve`` was asked; the fields are its options."""

    path: Path
    job_file: Path | None
    overrides: tuple[str, ...]
    data_dir: Path | None
    min_nodes: int
    wait: float
    host: str = "127.0.0.1"
    port: int = 0
    keys: Path | None = None


@dataclass(frozen=True)
class TakingPart:
    """What ``node`` was asked; the fields are its options."""

    job_file: Path | None
    overrides: tuple[str, ...]
    data_dir: Path | None
    server: str
    name: str
    part: int | None
    keys: Path | None
    state: Path
    cpu_share: float
    until_eof: bool


def serve(serving: Serving, as_json: bool) -> None:
    """Train with whatever nodes connect; go on if the folder has a training already."""
    job = _job_of(serving)
    folder = RunFolder(serving.path)
    if folder.ended.exists():
        show_run(folder.path, as_json)
        return
    with _opened(serving, as_json) as link:
        _train(serving, job, link, as_json)


def run_cluster(
    serving: Serving, nodes: int | None, shares: Sequence[float], as_json: bool
) -> None:
    """Serve, with nodes of its own that end with it."""
    if not all(0 < share <= 1 for share in shares):
        raise JobError("--cpu-shares must be numbers above 0, at most 1")
    job = _job_of(serving)
    folder = RunFolder(serving.path)
    if folder.ended.exists():
        show_run(folder.path, as_json)
        return
    places = len(make_training(job, serving.data_dir).fleet)
    count = places if nodes is None else nodes
    if count > places:
        raise JobError(f"-n is {count}, but the job has {places} devices")
    with _opened(serving, as_json) as link, ExitStack() as running:
        for place in range(count):
            share = shares[place % len(shares)]
            running.enter_context(_started(serving, folder, link.port, place, share))
        _train(serving, job, link, as_json)


def take_part(taking: TakingPart) -> None:
    """Be a node until SIGTERM or Ctrl-C."""
    _log_to_stderr()
    job = load_training_job(taking.job_file, taking.overrides)
    secrets = None if taking.keys is None else node_secrets(taking.keys)
    client = job_client(job, taking.data_dir, taking.part)
    node = Node(
        server=taking.server,
        config={"name": taking.name, "cpu_share": taking.cpu_share},
        ca=None if secrets is None else secrets.ca,
        key=None if secrets is None else secrets.key,
    )

    def leave(_number: int, _frame: FrameType | None) -> None:
        node.leave.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    if taking.until_eof:
        threading.Thread(target=_leave_at_eof, args=(node,), daemon=True).start()
    node.run(client_app(lambda _: client, taking.state))


def _leave_at_eof(node: Node) -> None:
    """Leave when standard input ends, as it does when who started this node dies.

    Nobody waits for its round any more, so it has only so long for it; its state is whole.
    """
    sys.stdin.buffer.read()
    node.leave.set()
    time.sleep(_SECONDS_TO_LEAVE)
    os._exit(1)


def job_client(job: TrainingJob, data_dir: Path | None, part: int | None) -> Client:
    """The client with a part of the job's partition, or with all training data there are."""
    engine = _simulated(make_training(job, data_dir))
    if part is None:
        everything = np.arange(len(engine.task.train_targets))
        return replace(engine.client(0), indices=everything, receive=None)
    if part >= len(engine.devices):
        raise JobError(f"--part is {part}, but the job has {len(engine.devices)} parts, from 0 on")
    return engine.client(part)


def _stock_client(context: Context) -> Client:
    """The client that a stock SuperNode's configuration describes."""
    config = context.node_config
    data_dir = Path(str(config["data-dir"])) if "data-dir" in config else None
    part = int(config["part"]) if "part" in config else None
    return job_client(load_training_job(Path(str(config["job"]))), data_dir, part)


stock_app = client_app(_stock_client)  # what the bundle for stock SuperNodes is made of


def _job_of(serving: Serving) -> TrainingJob:
    """The job in the run's folder, which is made from the job file if it is not there."""
    folder = RunFolder(serving.path)
    if folder.job.exists():
        return load_training_job(folder.job)
    job = load_training_job(serving.job_file, serving.overrides)
    trackers_of(job)  # so that a missing extra is known before anything is done
    serving.path.mkdir(parents=True, exist_ok=True)
    write_atomically(folder.job, to_toml(job.tables))
    return job


@contextmanager
def _opened(serving: Serving, as_json: bool) -> Iterator[Link]:
    """A link that nodes can connect to; says who can."""
    secrets = None if serving.keys is None else server_secrets(serving.keys)
    log = serving.path / "nodes.log"
    with _terminable(), Link(serving.host, serving.port, secrets) as link, _logged(log):
        where = f"{serving.host}, port {link.port}"
        who = (
            "for this machine only, as there are no --keys"
            if secrets is None
            else f"with TLS, for {len(secrets.node_keys)} nodes by their keys"
        )
        Console(stderr=as_json, highlight=False).print(f"Listening at {where}, {who}")
        yield link


def _train(serving: Serving, job: TrainingJob, link: Link, as_json: bool) -> None:
    """Wait for nodes, then train; a checkpoint after each round, as rounds are dear."""
    simulated = make_training(job, serving.data_dir)
    places = len(simulated.fleet)
    engine = FlowerEngine(
        grid=link.grid,
        task=_simulated(simulated).task,
        places=places,
        learning_rate=_simulated(simulated).learning_rate,
        seed=simulated.schedule.seed,
        names_file=RunFolder(serving.path).nodes,
        registered=link.registered,
        patience=Patience(join_seconds=serving.wait, least_nodes=min(serving.min_nodes, places)),
    )
    with Console(stderr=True).status(f"Waiting for {places} nodes"):
        fleet = engine.enroll()
    training = replace(simulated, engine=engine, fleet=fleet)
    train(
        RunFolder(serving.path),
        job,
        training,
        as_json,
        seconds_between_checkpoints=0.0,
        go_on="the same command once more",
    )


def _simulated(training: Training) -> SimulatedEngine:
    """The engine that a job makes: it has the data and the model."""
    return cast(SimulatedEngine, training.engine)


@contextmanager
def _started(
    serving: Serving, folder: RunFolder, port: int, place: int, share: float
) -> Iterator[None]:
    """A node of a cluster, in a process of its own."""
    name = f"node-{place + 1:03d}"
    own = folder.path / "nodes" / name
    own.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {
        "--server": f"127.0.0.1:{port}",
        "--name": name,
        "--part": place,
        "--state": own,
        "--cpu-share": share,
    }
    if serving.data_dir is not None:
        options["--data-dir"] = serving.data_dir
    words = [str(word) for pair in options.items() for word in pair]
    code = "from dynamite_fl.cli import main; main()"
    with (own / "log.txt").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603  it is this program
            [sys.executable, "-c", code, "node", str(folder.job), "--until-eof", *words],
            stdin=subprocess.PIPE,  # it ends with this process, however that ends
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the server, which ends its nodes
        )
    with process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(_SECONDS_TO_LEAVE)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def _terminable() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C, so that nothing that was started is left behind."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Who comes and goes is told to a file beside the history, not to the view."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    ours = logging.getLogger("dynamite_fl")
    ours.setLevel(logging.INFO)
    ours.addHandler(handler)
    try:
        yield
    finally:
        ours.removeHandler(handler)
        handler.close()
