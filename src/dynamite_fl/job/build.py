"""From a training job to what it describes: a task, devices, a partition, a controller, a training.

Each function makes just one of them, so that a node needs no fleet and a server no partition.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dynamite_fl._validate import check_keys
from dynamite_fl.client.probe import ProbeSettings
from dynamite_fl.control.controller import Controller
from dynamite_fl.control.registry import make_controller
from dynamite_fl.errors import RunFolderError
from dynamite_fl.job.devices import build_devices, count_devices
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.partitions import PartitionRecipe, partition_from_table
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.stream.stream import Stream
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.registry import load_task, make_task
from dynamite_fl.task.task import Task
from dynamite_fl.training.cohort import Selection
from dynamite_fl.training.loop import Schedule, Training
from dynamite_fl.training.pilot import pilot

Pilot = Callable[[int], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Given:
    """Objects made in Python that take the place of what the job's tables would make."""

    task: Task | None = None
    partition: PartitionRecipe | None = None
    controller: Controller[Any] | None = None


def build_training(
    job: TrainingJob, data_dir: Path | None = None, given: Given | None = None
) -> Training:
    """Make all that a job describes, on simulated devices.

    Raises:
        JobError: Something in the job cannot be used; the message says what to change.
    """
    given = given or Given()
    settings, limits = job.settings, job.limits
    devices = build_devices(job.tables["devices"], settings.seed)
    task = given.task or build_task(job, data_dir)
    recipe = given.partition or partition_from_table(job.tables["partition"])
    partition = split_data(task, recipe, len(devices), settings.seed)
    engine = SimulatedEngine(
        task,
        partition,
        devices,
        settings.learning_rate,
        settings.seed,
        ProbeSettings(only_sketches=settings.sends_sketches),
        streams=build_streams(job, task, partition),
        workers=settings.workers,
    )
    controller = given.controller or build_controller(
        job, partial(pilot, engine, limits, settings.learning_rate)
    )
    return Training(engine, controller, limits, schedule_of(job), engine.enroll())


def build_task(job: TrainingJob, data_dir: Path | None = None) -> Task:
    """Make the job's task: a model and a dataset by their names, or the user's own."""
    table, settings = job.tables["task"], job.settings
    if "use" in table:
        check_keys("task", table, ["use"])
        return load_task(table["use"], job.folders)
    if "made_in_python" in table:
        raise RunFolderError(
            f"the task {table['made_in_python']!r} was made in Python: go on with "
            "dynamite_fl.resume(folder, task=...), or with dynamite resume --task module:function"
        )
    check_keys("task", table, ["model", "dataset"], ["model", "dataset"])
    clients = number_of_devices(job)
    return make_task(table["model"], table["dataset"], data_dir, settings.seed, clients=clients)


def number_of_devices(job: TrainingJob) -> int:
    """Return how many devices the job has."""
    return count_devices(job.tables["devices"], job.settings.seed)


def build_partition(job: TrainingJob, task: Task, clients: int) -> Partition:
    """Split the task's data among clients as the job says."""
    recipe = partition_from_table(job.tables["partition"])
    return split_data(task, recipe, clients, job.settings.seed)


def split_data(task: Task, recipe: PartitionRecipe, clients: int, seed: int) -> Partition:
    """Split the task's data among clients."""
    return recipe.split(task.train_targets.numpy(), clients, seed, owners=task.train_clients)


def build_stream(job: TrainingJob) -> Stream | None:
    """Read the table ``stream``; None if the job has none."""
    table = job.tables.get("stream")
    if table is None:
        return None
    return Stream.from_table(table, dataset=job.tables["task"].get("dataset", ""))


def build_streams(job: TrainingJob, task: Task, partition: Partition) -> Streams | None:
    """Make the streams in which clients' samples arrive; None if all are there from the start."""
    stream = build_stream(job)
    if stream is None:
        return None
    return stream.build(
        pool=partition.indices,
        labels=task.train_targets.numpy(),
        rounds=job.limits.rounds,
        seed=job.settings.seed,
    )


def build_controller(job: TrainingJob, run_pilot: Pilot) -> Controller[Any]:
    """Make the job's controller.

    Args:
        job: The job.
        run_pilot: What measures the loss for CoOptFL, which plans before training begins: a
            function from a number of pilot rounds to the controller's settings.
    """
    settings = {key: value for key, value in job.tables["controller"].items() if key != "name"}
    name = job.controller_name
    if name == "cooptfl":
        settings |= run_pilot(settings.pop("pilot_rounds", 5))
    rate = job.settings.learning_rate
    return make_controller(name, learning_rate=rate, folders=job.folders, **settings)


def schedule_of(job: TrainingJob) -> Schedule:
    """Return what the job says of cohorts, evaluations and probes."""
    settings = job.settings
    return Schedule(
        selection=Selection(settings.cohort, settings.select_by),
        evaluate_every=settings.evaluate_every,
        probe_every=settings.probe_every,
        free_probes=settings.free_probes,
        sketches=settings.sends_sketches,
        seed=settings.seed,
    )
