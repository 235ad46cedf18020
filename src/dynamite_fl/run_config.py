"""A training job, as TOML, checked key by key: from a file to a ``Training``.

The tables are ``task`` (or "module:function"), ``partition``, ``devices`` (or a CSV file, or
one of the embedded fleets by its name, with ``clients`` where that is open), ``limits``,
``controller`` and ``training``, and ``stream`` where data streams in.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynamite_fl.client.client import ProbeSettings
from dynamite_fl.config import JobError, read_tables, table_record
from dynamite_fl.control.controller import Controller
from dynamite_fl.control.controllers import make_controller
from dynamite_fl.engine.cohort import Selection
from dynamite_fl.engine.devices import Devices
from dynamite_fl.engine.fleets import FLEETS, devices_from_table, embedded_fleet, read_devices_csv
from dynamite_fl.engine.loop import Schedule, Training
from dynamite_fl.engine.pilot import pilot
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.records import Limits
from dynamite_fl.report.tracking import TRACKERS, require
from dynamite_fl.stream.streams import Streams
from dynamite_fl.stream_config import make_streams
from dynamite_fl.task import partition
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.task import Task
from dynamite_fl.task.tasks import load_task, make_task

TABLES = ["task", "partition", "devices", "limits", "controller", "training"]
OPTIONAL = ["stream"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The table ``training``.

    Attributes:
        learning_rate: eta.
        seed: Of all that is drawn.
        cohort: How many clients a round has; all without it.
        select_by: ``uniform``, or ``data`` for chances in proportion to clients' samples.
        evaluate_every: Rounds from one evaluation to the next.
        probe_every: Rounds from one measurement of the loss to the next.
        probe_gradient: What clients send of the gradient when the loss is measured: ``whole``, or
            a ``sketch`` of it, at most 251 numbers.
        free_probes: Whether measurements are not charged, as in the paper's experiments.
        workers: How many processes compute for the clients; results do not depend on it.
        track: Who is told of each round beside the history: ``tensorboard``, ``mlflow``.
    """

    learning_rate: float
    seed: int = 0
    cohort: int | None = None
    select_by: str = "uniform"
    evaluate_every: int = 1
    probe_every: int = 1
    probe_gradient: str = "whole"
    free_probes: bool = False
    workers: int = 1
    track: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.learning_rate > 0:
            raise ValueError(f"Settings.learning_rate is {self.learning_rate}: it must be above 0")
        for name in ("evaluate_every", "probe_every", "workers"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"Settings.{name} must be a whole number, 1 or more")
        if isinstance(self.track, str) or not set(self.track) <= set(TRACKERS):
            known = ", ".join(f'"{name}"' for name in TRACKERS)
            raise ValueError(f"Settings.track must be a list of some of {known}")
        if self.probe_gradient not in ("whole", "sketch"):
            raise ValueError('Settings.probe_gradient must be "whole" or "sketch"')

    @property
    def sketches(self) -> bool:
        """Whether no gradient is sent whole."""
        return self.probe_gradient == "sketch"


@dataclass(frozen=True)
class TrainingJob:
    """A job's tables, overrides applied: what a run folder keeps."""

    tables: Mapping[str, Any]
    folder: Path


def load_training_job(path: Path | None = None, overrides: Iterable[str] = ()) -> TrainingJob:
    """The job in a file, or the embedded one, with overrides such as ``limits.deadline=50``."""
    tables = read_tables(path, "run.toml", overrides, TABLES, OPTIONAL)
    devices, folder = tables["devices"], Path() if path is None else path.parent
    if isinstance(devices, str) and devices not in FLEETS:
        tables["devices"] = str((folder / devices).absolute())
    if isinstance(devices, dict) and "trace" in devices:
        devices["trace"] = _absolute(devices["trace"], folder)
    for name in ("task", "partition", "devices", "controller", "stream"):
        if isinstance(tables.get(name), dict):
            tables[name] = {k: value for k, value in tables[name].items() if value is not None}
    return TrainingJob(tables, folder)


def _absolute(files: object, folder: Path) -> object:
    """Names of files as they are meant from a folder, so that they can be found from any."""
    if isinstance(files, list):
        return [_absolute(file, folder) for file in files]
    return str((folder / files).absolute()) if isinstance(files, str) and files else files


def to_toml(tables: Mapping[str, Any]) -> str:
    """The tables as TOML: what JSON writes of a value is TOML too, but for infinity."""
    words = [f"{name} = {json.dumps(value)}" for name, value in tables.items() if _is_word(value)]
    blocks = ["\n".join(words)] if words else []
    for name, table in tables.items():
        if not _is_word(table):
            rows = [f"{k} = {_toml_value(v)}" for k, v in table.items() if v is not None]
            blocks.append("\n".join([f"[{name}]", *rows]))
    return "\n\n".join(blocks) + "\n"


def _is_word(value: object) -> bool:
    return isinstance(value, str)


def _toml_value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return "inf" if value == math.inf else json.dumps(value)


def limits_of(job: TrainingJob) -> Limits:
    """The job's limits."""
    return table_record(Limits, "limits", job.tables["limits"])


def trackers_of(job: TrainingJob) -> tuple[str, ...]:
    """Who is told of rounds.

    Raises:
        MissingExtra: What one of them needs is not installed.
    """
    settings = table_record(Settings, "training", job.tables["training"])
    require(settings.track)
    return tuple(dict.fromkeys(settings.track))


def devices_of(job: TrainingJob) -> Devices:
    """The job's devices."""
    settings = table_record(Settings, "training", job.tables["training"])
    return _devices(job.tables["devices"], job.folder, settings.seed)


def make_training(job: TrainingJob, data_dir: Path | None = None) -> Training:
    """All that a job describes, ready to run.

    Raises:
        JobError: Something in the job cannot be used; the message says what to change.
    """
    settings = table_record(Settings, "training", job.tables["training"])
    limits = limits_of(job)
    try:
        devices = _devices(job.tables["devices"], job.folder, settings.seed)
        task = _task(job.tables["task"], data_dir, settings.seed, len(devices))
        split = _partition(job.tables["partition"], task, len(devices), settings.seed)
        engine = SimulatedEngine(
            task,
            split,
            devices,
            settings.learning_rate,
            settings.seed,
            ProbeSettings(only_sketches=settings.sketches),
            streams=_streams(job.tables, task, split, limits, settings.seed),
            workers=settings.workers,
        )
        controller = _controller(job.tables["controller"], settings, engine, limits)
        selection = Selection(settings.cohort, settings.select_by)
    except ValueError as error:
        raise JobError(str(error)) from None
    schedule = Schedule(
        selection=selection,
        evaluate_every=settings.evaluate_every,
        probe_every=settings.probe_every,
        free_probes=settings.free_probes,
        sketches=settings.sketches,
        seed=settings.seed,
    )
    return Training(engine, controller, limits, schedule, engine.enroll())


def _devices(entry: object, folder: Path, seed: int) -> Devices:
    if isinstance(entry, str) and entry in FLEETS:
        return embedded_fleet(entry, seed)
    if isinstance(entry, str):
        return read_devices_csv(folder / entry)
    if not isinstance(entry, dict):
        raise JobError(f"devices must be a table, a CSV file or one of {', '.join(FLEETS)}")
    if set(entry) == {"fleet", "clients"}:  # as many phones as one likes
        return embedded_fleet(entry["fleet"], seed, clients=entry["clients"])
    return devices_from_table(entry, folder)


def _task(entry: object, data_dir: Path | None, seed: int, clients: int) -> Task:
    if isinstance(entry, str):
        return load_task(entry)
    if not isinstance(entry, dict) or set(entry) != {"model", "dataset"}:
        raise JobError('task must have model and dataset, or be "module:function"')
    return make_task(entry["model"], entry["dataset"], data_dir, seed, clients=clients)


_PARTITIONS = {
    "wang": ("case",),
    "dirichlet": ("alpha",),
    "shards": ("per_client",),
    "unequal": ("spread",),
    "owner": (),
}


def _partition(entry: object, task: Task, clients: int, seed: int) -> Partition:
    """The split that a table names; ``owner`` is for data that comes with its clients."""
    if not isinstance(entry, dict) or entry.get("kind") not in _PARTITIONS:
        raise JobError(f"partition.kind must be one of {', '.join(_PARTITIONS)}")
    kind = entry["kind"]
    settings = {key: value for key, value in entry.items() if key != "kind"}
    for key in settings:
        if key not in _PARTITIONS[kind]:
            raise JobError(f"partition {kind} has no key {key}; known are {_PARTITIONS[kind]}")
    if kind == "owner":
        if task.train_clients is None:
            raise JobError("partition owner is for data that comes with its clients: synthetic")
        return partition.by_owner(np.asarray(task.train_clients), clients)
    labels = task.train_targets.numpy()
    if kind != "wang":
        settings["seed"] = seed
    split: Partition = getattr(partition, kind)(labels, clients, **settings)
    return split


def _streams(
    tables: Mapping[str, Any], task: Task, split: Partition, limits: Limits, seed: int
) -> Streams | None:
    """When what the partition gives a client reaches it; None if it is there from the start."""
    entry = tables.get("stream")
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise JobError("stream must be a table")
    named = tables["task"]
    return make_streams(
        entry,
        pool=split.indices,
        labels=task.train_targets.numpy(),
        dataset=named["dataset"] if isinstance(named, dict) else "",
        rounds=limits.rounds,
        seed=seed,
    )


def _controller(
    entry: object, settings: Settings, engine: SimulatedEngine, limits: Limits
) -> Controller:
    if not isinstance(entry, dict) or "name" not in entry:
        raise JobError("controller must be a table with a name")
    own = {key: value for key, value in entry.items() if key != "name"}
    if entry["name"] == "cooptfl":
        own |= pilot(engine, limits, settings.learning_rate, own.pop("pilot_rounds", 5))
    return make_controller(entry["name"], learning_rate=settings.learning_rate, **own)
