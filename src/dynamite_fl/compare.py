"""Controllers side by side: what is run."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynamite_fl.config import JobError, table_record
from dynamite_fl.control.controllers import CONTROLLERS, make_controller
from dynamite_fl.engine.run import RunFolder
from dynamite_fl.report.history import read_history
from dynamite_fl.report.summary import Result
from dynamite_fl.run_config import Settings, TrainingJob, to_toml
from dynamite_fl.stream.buffer import POLICIES

_NOT_BY_DEFAULT = ("fixed",)  # it needs settings that nobody has at hand


@dataclass(frozen=True)
class Contender:
    """A controller and its settings.

    Attributes:
        name: What to call it; its runs' folders begin with it.
        table: The table ``controller`` of its jobs.
        buffer: Its clients' buffer, ``stream.buffer`` of its jobs; None for the job's.
    """

    name: str
    table: Mapping[str, Any]
    buffer: str | None = None


@dataclass(frozen=True)
class Run:
    """One training of the comparison."""

    contender: str
    seed: int
    path: Path
    job: TrainingJob

    @property
    def name(self) -> str:
        """What its folder is called."""
        return self.path.name

    @property
    def is_finished(self) -> bool:
        """Whether its folder holds all of it."""
        return RunFolder(self.path).ended.exists()


def contenders_of(job: TrainingJob, names: Sequence[str] | None) -> list[Contender]:
    """The controllers of these names, or all that need no settings.

    The job's own controller keeps the settings it has there, all others have their defaults.

    Raises:
        ValueError: A name is unknown or a setting is missing or wrong.
    """
    if names is None:
        names = [name for name in CONTROLLERS if name not in _NOT_BY_DEFAULT]
    if not names:
        raise JobError(f"--controllers is empty: name some of {', '.join(CONTROLLERS)}")
    return [contender(job, name) for name in dict.fromkeys(names)]


def with_buffers(
    job: TrainingJob, contenders: Sequence[Contender], buffers: Sequence[str]
) -> list[Contender]:
    """Each controller with each buffer.

    Raises:
        JobError: A buffer is unknown, or the job's data does not stream.
    """
    if "stream" not in job.tables:
        raise JobError("--buffers is for data that streams in: the job has no [stream]")
    for buffer in buffers:
        if buffer not in POLICIES:
            raise JobError(f"--buffers has {buffer!r}: use some of {', '.join(POLICIES)}")
    return [
        replace(each, name=f"{each.name}+{buffer}", buffer=buffer)
        for each in contenders
        for buffer in dict.fromkeys(buffers)
    ]


def contender(job: TrainingJob, name: str, **own: Any) -> Contender:
    """A controller with its settings in the job, if it is the job's, or its own; checked."""
    settings = table_record(Settings, "training", job.tables["training"])
    entry = job.tables["controller"]
    if not own and isinstance(entry, Mapping) and entry.get("name") == name:
        own = {key: value for key, value in entry.items() if key not in ("name",)}
    if name != "cooptfl":  # what that needs comes from a pilot run
        make_controller(name, learning_rate=settings.learning_rate, **own)
    return Contender(name, {"name": name, **own})


def runs_of(
    job: TrainingJob, contenders: Iterable[Contender], seeds: Iterable[int], folder: Path
) -> list[Run]:
    """A run for each contender and seed, all of one seed together.

    Raises:
        JobError: A folder holds a run of another job.
    """
    contenders = list(contenders)
    runs = [_run(job, each, seed, folder) for seed in seeds for each in contenders]
    refuse_other_jobs(runs, "--name")
    return runs


def refuse_other_jobs(runs: Iterable[Run], option: str) -> None:
    """Refuse to go on in a folder of another job; the option is what to choose anew."""
    for run in runs:
        kept = RunFolder(run.path).job
        if kept.is_file() and kept.read_text(encoding="utf-8") != to_toml(run.job.tables):
            raise JobError(f"{run.path} holds a run of another job: choose another {option}")


def _run(job: TrainingJob, contender: Contender, seed: int, folder: Path) -> Run:
    tables = {
        **job.tables,
        "controller": dict(contender.table),
        "training": {**job.tables["training"], "seed": seed},
    }
    if contender.buffer is not None:
        tables["stream"] = {**job.tables["stream"], "buffer": contender.buffer}
    named = {name: _without_none(table) for name, table in tables.items()}
    path = folder / f"{contender.name}-{seed}"
    return Run(contender.name, seed, path, TrainingJob(named, job.folder))


def _without_none(table: Any) -> Any:
    """A table without the keys that were removed, for which TOML has no word."""
    if not isinstance(table, Mapping):
        return table
    return {key: value for key, value in table.items() if value is not None}


def result_of(run: Run) -> Result | str:
    """What came of a finished run; why nothing can be said of it if so."""
    folder = RunFolder(run.path)
    history = read_history(folder.history)
    if not history.lines:
        return "it ended before its first round"
    if math.isnan(history.final_accuracy):
        return "its model was never judged: lower training.evaluate_every"
    ended = folder.ended.read_text(encoding="utf-8").strip()
    return Result(run.contender, run.seed, run.path, ended, history)
