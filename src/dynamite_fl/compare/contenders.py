"""The contenders of a comparison, and a run for each of them and each seed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynamite_fl._format import metric_label
from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.compare.names import SERVERS, ContenderName
from dynamite_fl.compare.summary import FEDAVG, RunResult
from dynamite_fl.control.registry import CONTROLLERS, make_controller
from dynamite_fl.errors import JobError, RunFolderError
from dynamite_fl.job.runs import check_same_job
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.stream.buffer import POLICIES
from dynamite_fl.training.history import read_history
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.server_optimizer import make_server, server_table

_NOT_BY_DEFAULT = ("fixed",)  # it has no default settings
# Controllers that clients send losses and gradients to, which differential privacy refuses.
_NOT_PRIVATE = ("dynamite", "dynamite-static-tau", "dynamite-uniform", "dynamic-tau", "cooptfl")


@dataclass(frozen=True)
class Contender:
    """A controller with its settings, and settings of the job that the contender has of its own.

    Attributes:
        name: Name in tables and charts; the folders of its runs begin with it.
        table: The table ``controller`` of its jobs.
        buffer: The ``stream.buffer`` of its jobs; None to keep the job's own.
        learning_rate: The ``training.learning_rate`` of its jobs; None to keep the job's own.
        server: The table ``server`` of its jobs; None to keep the job's own.
    """

    name: str
    table: Mapping[str, Any]
    buffer: str | None = None
    learning_rate: float | None = None
    server: Mapping[str, Any] | None = None


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
        """Whether the training has ended, or has diverged and would do so again."""
        folder = RunFolder(self.path)
        return folder.is_finished or folder.diverged.is_file()


@dataclass(frozen=True)
class NoResult:
    """Why a run has no result.

    Attributes:
        reason: The reason.
        has_diverged: Whether the training diverged. A search then counts it as the worst.
    """

    reason: str
    has_diverged: bool = False


def contenders_of(job: TrainingJob, names: Sequence[str] | None) -> list[Contender]:
    """Return the contenders of these names; by default, all controllers that need no settings.

    The job's own controller keeps its settings from the job; the others have their defaults.

    Raises:
        InvalidInput: A name is unknown, or a setting is missing or wrong.
    """
    if names is None:
        names = [name for name in CONTROLLERS if name not in _NOT_BY_DEFAULT]
        if job.privacy is not None:
            names = [name for name in names if name not in _NOT_PRIVATE]
    if not names:
        raise JobError(f"--controllers is empty: name some of {', '.join(CONTROLLERS)}")
    return [contender_of(job, name) for name in dict.fromkeys(names)]


def contender_of(job: TrainingJob, name: str) -> Contender:
    """Return the contender of this name, with the settings that the job has for it.

    Args:
        job: The job.
        name: A controller, or a server optimiser for FedAvg with that optimiser. Both may be
            followed by rates, as in ``fedavg@0.1`` and ``fedadam@0.1x0.01``.

    Raises:
        InvalidInput: The name is unknown, or a setting is missing or wrong.
    """
    parsed = ContenderName.parse(name)
    server = None
    if parsed.method in SERVERS:
        server = _server_table(job, parsed)
    elif parsed.server_rate is not None:
        raise JobError(f"{name} has two rates, but {parsed.method} has no rate at the server")
    table = _controller_table(job, FEDAVG if server is not None else parsed.method, parsed.rate)
    return Contender(str(parsed), table, learning_rate=parsed.rate, server=server)


def _server_table(job: TrainingJob, name: ContenderName) -> dict[str, Any]:
    """Return a server optimiser with the settings that the job has for it, and the name's rate."""
    table = dict(job.tables.get("server", {}))
    settings = table if table.get("name") == name.method else {"name": name.method}
    if name.server_rate is not None:
        settings = {**settings, "learning_rate": name.server_rate}
    return server_table(make_server(**settings))


def _controller_table(job: TrainingJob, name: str, rate: float | None) -> dict[str, Any]:
    """Return a controller with the settings that the job has for it."""
    settings = {}
    if job.controller_name == name:
        settings = {key: value for key, value in job.tables["controller"].items() if key != "name"}
    if name != "cooptfl":  # its settings come from a pilot run
        rate = job.settings.learning_rate if rate is None else rate
        make_controller(name, learning_rate=rate, folders=job.folders, **settings)
    return {"name": name, **settings}


def fixed_contender(setting: FixedSetting) -> Contender:
    """Return the controller that keeps to a fixed setting."""
    sizes = {"local_steps": setting.local_steps, "batch_size": setting.batch_size}
    return Contender(setting.name, {"name": "fixed", **sizes}, learning_rate=setting.learning_rate)


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
    training = {**job.tables["training"], "seed": seed}
    if contender.learning_rate is not None:
        training["learning_rate"] = contender.learning_rate
    tables: dict[str, Any] = {"controller": dict(contender.table), "training": training}
    if contender.server is not None:
        tables["server"] = dict(contender.server)
    if contender.buffer is not None:
        tables["stream"] = {**job.tables["stream"], "buffer": contender.buffer}
    path = folder / f"{contender.name.replace(':', '.')}-{seed}"
    return Run(contender.name, seed, path, job.with_tables(**tables))


def result_of(run: Run) -> RunResult | NoResult:
    """Return the result of a finished run, or the reason why it has none."""
    folder = RunFolder(run.path)
    if folder.diverged.is_file() and not folder.is_finished:
        return NoResult(folder.diverged.read_text(encoding="utf-8").strip(), has_diverged=True)
    try:
        history, ended = read_history(folder.history), folder.stopped_by() or "unknown"
    except RunFolderError as error:
        return NoResult(str(error))
    if not history:
        return NoResult("it ended before its first round")
    if not history.final_metrics:
        return NoResult("its model was never evaluated: lower training.evaluate_every")
    if math.isnan(history.final):
        label = metric_label(history.leading_metric.name)
        return NoResult(f"its {label} is not a number at the end", has_diverged=True)
    return RunResult(run.contender, run.seed, run.path, ended, history)
