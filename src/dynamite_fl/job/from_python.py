"""From what is given in Python to the job that a file would describe, and that run folders keep."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from dynamite_fl._load import module_folder
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.control.controller import Controller
from dynamite_fl.errors import InvalidInput
from dynamite_fl.job.controller import controller_table
from dynamite_fl.job.settings import Settings
from dynamite_fl.job.training import (
    DEFAULT_OPTIMIZER,
    TrainingJob,
    resolve_tables,
)
from dynamite_fl.partitions import PartitionRecipe, by_owner
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.stream.stream import Stream
from dynamite_fl.task.registry import load_task
from dynamite_fl.task.task import Task
from dynamite_fl.training.averaging import Averaging, averaging_table
from dynamite_fl.training.privacy import Privacy
from dynamite_fl.training.server_optimizer import ServerOptimizer, server_table


def as_task(task: Task | str) -> Task:
    """Return a task; load it if it is named by ``module:function``."""
    if isinstance(task, str):
        return load_task(task)
    if not isinstance(task, Task):
        raise InvalidInput(f"task is a {type(task).__name__}: give a Task or module:function")
    return task


def as_devices(devices: Devices | Fleet) -> Devices:
    """Return the devices of a fleet. Its samples and gradient variances are not used."""
    if isinstance(devices, Devices):
        return devices
    if not isinstance(devices, Fleet):
        raise InvalidInput(
            f"devices is a {type(devices).__name__}: give the name of a fleet, a CSV file, "
            "Devices or a Fleet"
        )
    return Devices(
        samples_per_second=devices.samples_per_second,
        step_overhead=devices.step_overhead,
        latency=devices.comm_seconds,
        name=devices.name,
    )


def describe_job(
    task: Task,
    limits: Limits,
    settings: Settings,
    controller: Controller[Any] | str,
    devices: str | dict[str, Any],
    partition: PartitionRecipe | None = None,
    stream: Stream | None = None,
    optimizer: Optimizer | str = DEFAULT_OPTIMIZER,
    server: ServerOptimizer | str | None = None,
    averaging: Averaging | str | None = None,
    privacy: Privacy | None = None,
) -> TrainingJob:
    """Write what was given in Python as a job, which a run folder keeps.

    Args:
        task: The model, the loss and the data.
        limits: The limits of the training.
        settings: The job's table ``training``.
        controller: The controller or its name.
        devices: The job's entry ``devices``: a name, a CSV file or a table.
        partition: How the data is split; None for the default.
        stream: When samples arrive; None if every device has all its samples from the start.
        optimizer: The optimiser of local steps or its name.
        server: The server optimiser or its name; None for the default.
        averaging: How local models are averaged; None for the default of the engine.
        privacy: The settings of differential privacy; None without it.
    """
    for name, value, kind in (
        ("limits", limits, Limits),
        ("partition", partition, PartitionRecipe | None),
        ("stream", stream, Stream | None),
        ("optimizer", optimizer, Optimizer | str),
        ("privacy", privacy, Privacy | None),
    ):
        if not isinstance(value, kind):
            raise InvalidInput(f"{name} is a {type(value).__name__}: give {_WANTED[name]}")
    check_learning_rate(controller, settings.learning_rate)
    tables = {
        "task": _task_table(task),
        "partition": _partition_table(task, partition),
        "stream": None if stream is None else stream.to_table(),
        "devices": devices,
        "limits": asdict(limits),
        "controller": controller if isinstance(controller, str) else controller_table(controller),
        "optimizer": optimizer if isinstance(optimizer, str) else optimizer.to_table(),
        "server": server if isinstance(server, str | None) else server_table(server),
        "averaging": averaging if isinstance(averaging, str | None) else averaging_table(averaging),
        "privacy": None if privacy is None else asdict(privacy),
        "training": {**asdict(settings), "track": list(settings.track)},
    }
    resolved = resolve_tables(tables, folder=Path())
    names = (resolved[table]["name"] for table in ("controller", "optimizer"))
    specs = (resolved["task"].get("use"), *names)
    own = [folder for spec in specs if (folder := module_folder(spec)) is not None]
    return TrainingJob(resolved, tuple(dict.fromkeys([*own, Path.cwd()])))


_WANTED = {
    "limits": "a Limits",
    "partition": "a recipe of dynamite_fl.partitions",
    "stream": "a Stream",
    "privacy": "a Privacy",
    "optimizer": 'an Optimizer or its name, such as fl.Optimizer("AdamW", weight_decay=0.01)',
}


def check_learning_rate(controller: Controller[Any] | str, learning_rate: float | None) -> None:
    """Refuse a controller that was made for another learning rate than the training's."""
    own = getattr(controller, "learning_rate", learning_rate)
    if own != learning_rate:
        raise InvalidInput(
            f"the learning rate of the controller is {own}, but that of the training is "
            f"{learning_rate}: give both the same, where None means that it is chosen"
        )


def _partition_table(task: Task, partition: PartitionRecipe | None) -> dict[str, Any] | None:
    """Return the job's table ``partition``; None for the default."""
    if partition is None and task.has_own_data:
        partition = by_owner()
    return None if partition is None else partition.to_table()


def _task_table(task: Task) -> dict[str, Any]:
    """Return the job's table ``task``, which says how to make the task again.

    A task that was made in Python cannot be made again from a table. Its table holds its name, so
    that a resume can ask for it.
    """
    return {"made_in_python": task.name} if task.source is None else dict(task.source)
