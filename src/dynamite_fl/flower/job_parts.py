"""The parts of a job that real machines need, each built on its own."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.gaussian_noise import SecretNoise
from dynamite_fl.client.local_data.device_client import device_client
from dynamite_fl.client.partitioned import PartitionedClients
from dynamite_fl.client.private_update import NodePrivacy
from dynamite_fl.errors import JobError
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.flower.waiting import WaitStatus
from dynamite_fl.job.build import (
    build_controller,
    build_optimizer,
    build_privacy,
    compute_of,
    schedule_of,
    warn_of_optimizer,
)
from dynamite_fl.job.build_data import (
    build_partition,
    build_stream,
    build_streams,
    build_task,
    number_of_devices,
)
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.task.task import Task
from dynamite_fl.task.trial import try_task
from dynamite_fl.training.averaging import Averaging, ClippedMean, Mean
from dynamite_fl.training.private_mechanism import node_privacy
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.training import Training


def build_client(
    job: TrainingJob,
    data_dir: Path | None,
    part: int | None = None,
    incoming: Path | None = None,
) -> Client:
    """Build the client of a node.

    Args:
        job: The job.
        data_dir: The folder of the datasets; None for the default folder.
        part: The part of the job's partition that the client has, from 0; None for all training
            data of the job's task.
        incoming: The folder in which the client's samples arrive, instead of the job's data. The
            job's stream says how many of them are kept.

    Raises:
        JobError: The job has no such part, or both a part and a folder are given.
    """
    if part is not None and incoming is not None:
        raise JobError("--part and --incoming exclude each other: use one of them")
    task, seed = build_task(job, data_dir), job.settings.seed
    privacy = _build_node_privacy(job)
    try_task(task, needs_test_data=False, needs_train_data=incoming is None)
    optimizer, compute = build_optimizer(job), compute_of(job)
    settings = job.settings.probe_settings
    model = FlatModel(task, seed, compute)
    if part is None:
        stream = build_stream(job)
        storage = None if stream is None else stream.storage(seed)
        return device_client(
            model, seed, settings, optimizer, incoming=incoming, storage=storage, privacy=privacy
        )
    devices = number_of_devices(job)
    if part >= devices:
        raise JobError(
            f"--part is {part}, but the job has {devices} devices: use 0 to {devices - 1}"
        )
    partition = build_partition(job, task, devices)
    streams = build_streams(job, task, partition)
    clients = PartitionedClients(model, partition, seed, settings, streams, optimizer, privacy)
    return clients.make(part)


def _build_node_privacy(job: TrainingJob) -> NodePrivacy | None:
    """Return how a node protects its update; None if the server does so, or nobody.

    A node whose job has the noise multiplier needs no accountant.
    """
    privacy, clients = job.privacy, number_of_devices(job)
    if privacy is None or privacy.noise_at == "server":
        return None
    if privacy.noise_multiplier is not None:
        return node_privacy(privacy, job.settings.cohort or clients, SecretNoise())
    mechanism = build_privacy(job, clients, is_real=True)
    return None if mechanism is None else mechanism.for_nodes()


def build_training(
    job: TrainingJob,
    task: Task,
    folder: RunFolder,
    link: SuperLink,
    *,
    timeouts: Timeouts,
    min_nodes: int,
    expected_names: Sequence[str] = (),
    on_wait: Callable[[WaitStatus], None] | None = None,
) -> Training:
    """Wait for the nodes of a job, and return its training on them.

    Args:
        job: The job.
        task: The job's task.
        folder: The folder of the run, which keeps the names of the nodes.
        link: The SuperLink that the nodes connect to.
        timeouts: How long to wait for nodes.
        min_nodes: The number of nodes that a round needs.
        expected_names: The names of nodes that were started, as far as they are known.
        on_wait: Called while it waits for nodes, whenever one has come, gone or replied.

    Raises:
        TooFewNodes: Fewer than ``min_nodes`` nodes have connected in time.
        JobError: The job's controller needs a pilot run, which real machines do not do.
    """
    controller, settings = build_controller(job, refuse_pilot), job.settings
    privacy = build_privacy(job, number_of_devices(job), is_real=True)
    warn_of_optimizer(controller, build_optimizer(job))
    engine = FlowerEngine(
        grid=link.grid,
        task=task,
        clients=number_of_devices(job),
        seed=settings.seed,
        names_file=folder.nodes,
        registered=link.registered,
        timeouts=timeouts,
        min_nodes=min_nodes,
        expected_names=expected_names,
        on_wait=on_wait,
        settings=settings.probe_settings,
        optimizer=build_optimizer(job),
        compute=compute_of(job),
        is_private=privacy is not None,
    )
    first_weights = engine.model.first_weights
    link.rules.expect_models_of(first_weights.numel() * first_weights.element_size())
    schedule, rate, fleet = schedule_of(job), settings.rate_schedule, engine.enroll()
    return Training(
        engine,
        controller,
        job.limits,
        schedule,
        fleet,
        rate,
        job.server,
        averaging_of_nodes(job),
        privacy,
    )


def averaging_of_nodes(job: TrainingJob) -> Averaging:
    """Return how models of real machines are averaged: as the job says, or by a safe default.

    Nodes are not trusted, so the mean is clipped. With differential privacy, updates are clipped
    anyway, and a clip norm that depends on all of them would break its guarantee.
    """
    return job.averaging or (ClippedMean() if job.privacy is None else Mean())


def refuse_pilot(_: int) -> dict[str, Any]:
    """Refuse a controller that needs a pilot run.

    Raises:
        JobError: Always.
    """
    raise JobError(
        "the controller cooptfl plans by a pilot run on simulated devices, which real machines do "
        "not do: choose another controller"
    )
