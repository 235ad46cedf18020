"""Small trainings that take a moment."""

from functools import cache
from typing import Any

from dynamite_fl import Limits, LossGeometry
from dynamite_fl.control.registry import make_controller
from dynamite_fl.partitions import dirichlet
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.stream.stream import Stream
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.registry import make_task
from dynamite_fl.task.task import Task
from dynamite_fl.testing._training import DEVICES, LIMITS
from dynamite_fl.training.cohort import Selection
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.server_optimizer import make_server
from dynamite_fl.training.training import Schedule, Training

RATE = 0.05
# Settings without which a controller cannot be made, or would not show what it does here.
SETTINGS: dict[str, dict[str, Any]] = {
    "cooptfl": {
        "geometry": LossGeometry(
            learning_rate=0.05,
            quadratic_bound=5.0,
            smoothness=2.0,
            pl_constant=0.1,
            divergence=1.0,
            loss_gap=2.3,
        )
    },
    "fixed": {"local_steps": 3, "batch_size": 10},
}


@cache
def digits(model: str = "softmax") -> Task:
    return make_task(model, "digits")


# A dozen samples at first, as many more every other round, and room for fifty.
STREAM: dict[str, Any] = {
    "arrivals": "smooth",
    "order": "continuous",
    "initial": 12,
    "size": 12,
    "every": 2,
    "buffer_size": 50,
}


def streams_of(stream: dict[str, Any], task: Task, split: Partition, seed: int) -> Streams:
    labels = task.train_labels()
    return Stream.from_table(stream).build(split.indices, labels, rounds=8, seed=seed)


def training(
    controller: str = "dynamite",
    *,
    model: str = "softmax",
    seed: int = 0,
    cohort: int | None = None,
    limits: dict[str, Any] | None = None,
    devices: dict[str, Any] | None = None,
    task: Task | None = None,
    stream: dict[str, Any] | None = None,
    workers: int = 1,
    rate: RateSchedule | None = None,
    server: str = "average",
    local_steps: int | None = None,
    **schedule: Any,
) -> Training:
    task = task or digits(model)
    fleet = Devices(**{**DEVICES, **(devices or {})})
    split = dirichlet(alpha=0.5).split(task.train_labels(), len(fleet), seed)
    streams = None if stream is None else streams_of(stream, task, split, seed)
    settings = dict(SETTINGS.get(controller, {}))
    if local_steps is not None:
        settings["local_steps"] = local_steps
    engine = SimulatedEngine(task, split, fleet, seed, streams=streams, workers=workers)
    return Training(
        engine,
        make_controller(controller, learning_rate=RATE, **settings),
        Limits(**{**LIMITS, **(limits or {})}),
        Schedule(selection=Selection(cohort), seed=seed, **schedule),
        engine.enroll(),
        rate or RateSchedule(RATE),
        make_server(server),
    )
