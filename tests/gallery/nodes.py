"""A server in this process and two nodes in processes of their own."""

import multiprocessing
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from dynamite_fl.flower.job_parts import build_training
from dynamite_fl.flower.join import NodeOptions, join
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.job.build_data import build_task
from dynamite_fl.job.read import to_toml
from dynamite_fl.job.runs import open_run
from dynamite_fl.job.training import load_training_job
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session
from tests.processes import HANG_SECONDS

NODES = 2

# New processes are forked from one that has imported these modules, so they take no time to start.
# The optimisers of torch import ``torch._dynamo``.
_PRELOADED = [__name__, "torch._dynamo", "sklearn.datasets", "torchmetrics.classification"]
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(_PRELOADED)


def run_node(
    job_file: Path, port: int, part: int | None, name: str, folders: list[Path], changes: list[str]
) -> None:
    """Take part as ``dynamite node`` does, until the process is killed."""
    job = load_training_job(job_file, changes, folders)
    server, state = f"127.0.0.1:{port}", job_file.parent / f"state-{name}"
    join(job, NodeOptions(server=server, name=name, state=state, part=part), threading.Event())


@contextmanager
def started(
    job_file: Path, port: int, folders: list[Path], changes: Sequence[list[str]] | None
) -> Iterator[None]:
    """Start two nodes, and kill them with the context."""
    processes = [
        _PROCESSES.Process(
            target=run_node,
            args=(
                job_file,
                port,
                part if changes is None else None,
                f"node-{part + 1}",
                folders,
                [] if changes is None else changes[part],
            ),
            daemon=True,
        )
        for part in range(NODES)
    ]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join(HANG_SECONDS)


def train_on_nodes(
    tables: Mapping[str, Any],
    folder: RunFolder,
    module_folders: list[Path],
    changes: Sequence[list[str]] | None = None,
) -> dict[str, Tensor]:
    """Train as ``dynamite serve`` does, with two nodes, and return the trained weights.

    Args:
        tables: The tables of the job.
        folder: The run folder.
        module_folders: The folders in which the job's modules are looked for.
        changes: For each node, what ``--set`` changes in its job, so that it has its own data.
            Default: each node has a part of the job's data.
    """
    job_file = folder.path.with_suffix(".toml")
    job_file.write_text(to_toml({"averaging": "mean", **tables}))  # as in a simulation
    job = load_training_job(job_file, folders=module_folders)
    task = build_task(job)
    open_run(folder, job, fingerprint(task), task.leading_metric)
    with (
        SuperLink("127.0.0.1", 0) as link,
        started(job_file, link.port, module_folders, changes),
    ):
        training = build_training(
            job,
            task,
            folder,
            link,
            timeouts=Timeouts(min_round_seconds=HANG_SECONDS, join_seconds=HANG_SECONDS),
            min_nodes=NODES,
        )
        outcome = Session(training, folder).run()
        assert all(not record.absent for record in outcome.history)
        return training.engine.state_dict(outcome.weights)
