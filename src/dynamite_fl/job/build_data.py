"""Make the task that a training job describes, and the data of each device."""

from pathlib import Path

import numpy as np

from dynamite_fl._validate import check_keys
from dynamite_fl.errors import JobError, RunFolderError
from dynamite_fl.job.devices import count_devices
from dynamite_fl.job.training import DEFAULT_PARTITION, TrainingJob
from dynamite_fl.partitions import PartitionRecipe, by_owner, partition_from_table
from dynamite_fl.stream.stream import Stream
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.registry import load_task, make_task
from dynamite_fl.task.samples import JoinedSamples, Samples
from dynamite_fl.task.task import Task


def number_of_devices(job: TrainingJob) -> int:
    """Return how many devices the job has."""
    return count_devices(job.tables["devices"], job.settings.seed)


def build_task(job: TrainingJob, data_dir: Path | None = None) -> Task:
    """Make the job's task, from the names of a model and a dataset or by the user's function."""
    table, settings = job.tables["task"], job.settings
    if "use" in table:
        arguments = {key: value for key, value in table.items() if key != "use"}
        return load_task(table["use"], job.folders, arguments)
    if "made_in_python" in table:
        raise RunFolderError(
            f"the task {table['made_in_python']!r} was made in Python: go on with "
            "dynamite_fl.resume(folder, task=...), or with dynamite resume --task module:function"
        )
    check_keys("task", table, ["model", "dataset"], ["model", "dataset"])
    clients = number_of_devices(job)
    return make_task(table["model"], table["dataset"], data_dir, settings.seed, clients=clients)


def build_partition(job: TrainingJob, task: Task, clients: int) -> Partition:
    """Split the task's data among clients as the job says."""
    recipe = partition_from_table(job.tables["partition"])
    return split_data(task, recipe, clients, job.settings.seed)


def split_data(task: Task, recipe: PartitionRecipe, clients: int, seed: int) -> Partition:
    """Split the task's data among clients.

    Labels are read only if the recipe uses them, because that may mean to load all samples. Data
    that is a list with one dataset for each client is split already.
    """
    if task.has_own_data:
        if recipe not in (partition_from_table(DEFAULT_PARTITION), by_owner()):
            raise JobError(
                "the training data is a list with one dataset for each client: leave the partition "
                "out"
            )
        _check_one_each(task.train, clients)
        recipe = by_owner()
    labels = task.train_labels() if recipe.uses_labels else np.zeros(len(task.train), np.int64)
    return recipe.split(labels, clients, seed, owners=task.owners)


def check_test_data(task: Task, clients: int) -> None:
    """Refuse test data of another number of clients, whose metrics would get wrong names."""
    if task.has_test_data and isinstance(task.test, JoinedSamples):
        parts = len(task.test.parts)
        if parts != clients:
            raise JobError(
                f"Task.test_data is a list of {parts}, but there are {clients} devices: give one "
                "entry for each device, or test data that is not a list"
            )


def _check_one_each(samples: Samples, clients: int) -> None:
    """Refuse a list of datasets that has not one for each client."""
    if isinstance(samples, JoinedSamples) and len(samples.parts) != clients:
        raise JobError(
            f"the training data is a list of {len(samples.parts)} datasets, but there are "
            f"{clients} devices: give one dataset for each device"
        )


def build_stream(job: TrainingJob) -> Stream | None:
    """Return the job's table ``stream`` as an object; None if the job has no such table."""
    table = job.tables.get("stream")
    if table is None:
        return None
    return Stream.from_table(table, dataset=job.tables["task"].get("dataset", ""))


def build_streams(job: TrainingJob, task: Task, partition: Partition) -> Streams | None:
    """Make the streams of all clients; None if clients have all their samples from the start."""
    stream = build_stream(job)
    if stream is None:
        return None
    return stream.build(
        pool=partition.indices,
        labels=task.train_labels() if stream.uses_labels else np.zeros(0, np.int64),
        rounds=job.limits.rounds,
        seed=job.settings.seed,
    )
