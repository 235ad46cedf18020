"""The contenders of a comparison, and a run for each of them and each seed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynamite_fl._format import metric_label
from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.compare.summary import RunResult
from dynamite_fl.control.registry import CONTROLLERS, make_controller
from dynamite_fl.errors import JobError
from dynamite_fl.job.runs import check_same_job
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.stream.buffer import POLICIES
from dynamite_fl.training.history import read_history
from dynamite_fl.training.run_folder import RunFolder

_NOT_BY_DEFAULT = ("fixed",)  # it has no default settings


@dataclass(frozen=True)
class Contender:
    """A controller with its settings.

    Attributes:
        name: Name in tables and charts; the folders of its runs begin with it.
        table: The table ``controller`` of its jobs.
        buffer: The ``stream.buffer`` of its jobs; None to keep the job's own.
    """

    name: str
    table: Mapping[str, Any]
    buffer: str | None = None


@dataclass(frozen=True)
class Run:
    """One training of a comparison.

    Attributes:
        contender: Name of the contender.
        seed: Seed of the training.
        path: Folder of the run.
        job: The job, with the contender's settings and the seed.
    """

    contender: str
    seed: int
    path: Path
    job: TrainingJob

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return self.path.name

    @property
    def is_finished(self) -> bool:
        """Whether the training has ended."""
        return RunFolder(self.path).is_finished


def contenders_of(job: TrainingJob, names: Sequence[str] | None) -> list[Contender]:
    """Return the controllers of these names; by default, all that need no settings.

    The job's own controller keeps its settings from the job; the others have their defaults.

    Raises:
        InvalidInput: A name is unknown, or a setting is missing or wrong.
    """
    if names is None:
        names = [name for name in CONTROLLERS if name not in _NOT_BY_DEFAULT]
    if not names:
        raise JobError(f"--controllers is empty: name some of {', '.join(CONTROLLERS)}")
    return [contender_of(job, name) for name in dict.fromkeys(names)]


def contender_of(job: TrainingJob, name: str) -> Contender:
    """Return the controller of this name, with the settings that the job has for it.

    Raises:
        InvalidInput: The name is unknown, or a setting is missing or wrong.
    """
    settings = {}
    if job.controller_name == name:
        settings = {key: value for key, value in job.tables["controller"].items() if key != "name"}
    if name != "cooptfl":  # its settings come from a pilot run
        rate = job.settings.learning_rate
        make_controller(name, learning_rate=rate, folders=job.folders, **settings)
    return Contender(name, {"name": name, **settings})


def fixed_contender(setting: FixedSetting) -> Contender:
    """Return the controller that keeps to a fixed setting."""
    sizes = {"local_steps": setting.local_steps, "batch_size": setting.batch_size}
    return Contender(setting.name, {"name": "fixed", **sizes})


def with_buffers(
    job: TrainingJob, contenders: Sequence[Contender], buffers: Sequence[str]
) -> list[Contender]:
    """Return each contender with each buffer.

    Raises:
        JobError: A buffer is unknown, or the job's data does not stream.
    """
    if "stream" not in job.tables:
        raise JobError("--buffers is for data that streams in: the job has no [stream]")
    for buffer in buffers:
        if buffer not in POLICIES:
            raise JobError(f"--buffers has {buffer!r}: use some of {', '.join(POLICIES)}")
    return [
        replace(contender, name=f"{contender.name}+{buffer}", buffer=buffer)
        for contender in contenders
        for buffer in dict.fromkeys(buffers)
    ]


def runs_of(
    job: TrainingJob, contenders: Iterable[Contender], seeds: Iterable[int], folder: Path
) -> list[Run]:
    """Return a run for each contender and seed, in the order of the seeds.

    Raises:
        RunFolderError: A folder holds a run of another job; the message says what differs.
    """
    contenders = list(contenders)
    runs = [_run(job, contender, seed, folder) for seed in seeds for contender in contenders]
    refuse_other_jobs(runs)
    return runs


def refuse_other_jobs(runs: Iterable[Run]) -> None:
    """Refuse folders that hold runs of other jobs.

    Raises:
        RunFolderError: A folder does; the message says what differs.
    """
    for run in runs:
        folder = RunFolder(run.path)
        if folder.has_rounds:
            check_same_job(folder, run.job)


def _run(job: TrainingJob, contender: Contender, seed: int, folder: Path) -> Run:
    tables: dict[str, Any] = {
        "controller": dict(contender.table),
        "training": {**job.tables["training"], "seed": seed},
    }
    if contender.buffer is not None:
        tables["stream"] = {**job.tables["stream"], "buffer": contender.buffer}
    path = folder / f"{contender.name.replace(':', '.')}-{seed}"
    return Run(contender.name, seed, path, job.with_tables(**tables))


def result_of(run: Run) -> RunResult | str:
    """Return the result of a finished run, or the reason why it has none."""
    folder = RunFolder(run.path)
    history = read_history(folder.history)
    if not history:
        return "it ended before its first round"
    if not history.final_metrics:
        return "its model was never evaluated: lower training.evaluate_every"
    if math.isnan(history.final):
        return f"its {metric_label(history.leading_metric.name)} is not a number at the end"
    ended = folder.stopped_by() or "unknown"
    return RunResult(run.contender, run.seed, run.path, ended, history)
