"""Small simulated trainings, which take a fraction of a second."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from dynamite_fl.control.controller import Controller
from dynamite_fl.partitions import dirichlet
from dynamite_fl.records import Limits
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.stream.stream import Stream
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.registry import make_task
from dynamite_fl.task.task import Task
from dynamite_fl.training.cohort import Selection
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.training import Schedule, Training

LEARNING_RATE = 0.05
ROUNDS = 8
DEVICES: dict[str, Any] = {
    "samples_per_second": [100, 150, 300, 600, 1200],
    "step_overhead": 0.005,
    "latency": [0.2, 0.1, 0.1, 0.05, 0.02],
    "bandwidth": 1e6,
    "jitter": 0.1,
    "comm_jitter": 0.1,
}
LIMITS: dict[str, Any] = {
    "rounds": ROUNDS,
    "deadline": 8.0,
    "budget": 20.0,
    "cost_per_sample": 0.002,
    "cost_per_round": 0.5,
    "max_local_steps": 20,
}
# Every client has 12 samples at first, receives 12 more in every other round, and stores 50.
_STREAM: dict[str, Any] = {
    "arrivals": "smooth",
    "initial": 12,
    "size": 12,
    "every": 2,
    "buffer_size": 50,
}


@dataclass(frozen=True)
class Setting:
    """What differs between small trainings.

    Attributes:
        seed: The seed of all random numbers.
        cohort: The number of clients in a round. None for all.
        devices: Properties of the devices that differ from the usual ones.
        limits: Limits that differ from the usual ones.
        stream: The buffer and the order of streaming data. None if data does not stream.
    """

    seed: int = 0
    cohort: int | None = None
    devices: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    stream: dict[str, str] | None = None


def small_training(controller: Controller[Any], setting: Setting) -> Training:
    """Return a training of softmax regression on digits, on five unequal devices."""
    task, seed = _digits(), setting.seed
    devices = Devices(**{**DEVICES, **setting.devices})
    split = dirichlet(alpha=0.5).split(task.train_labels(), len(devices), seed)
    streams = None if setting.stream is None else _streams(setting.stream, task, split, seed)
    engine = SimulatedEngine(task, split, devices, seed, streams=streams)
    return Training(
        engine,
        controller,
        Limits(**{**LIMITS, **setting.limits}),
        Schedule(selection=Selection(setting.cohort), seed=seed),
        engine.enroll(),
        RateSchedule(LEARNING_RATE),
    )


@cache
def _digits() -> Task:
    return make_task("softmax", "digits")


def _streams(stream: dict[str, str], task: Task, split: Partition, seed: int) -> Streams:
    labels = task.train_labels()
    return Stream.from_table({**_STREAM, **stream}).build(split.indices, labels, ROUNDS, seed)
