"""Controllers side by side: what is run, and how it is summed up."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dynamite_fl.config import JobError, table_record
from dynamite_fl.control.controllers import CONTROLLERS, make_controller
from dynamite_fl.engine.run import RunFolder
from dynamite_fl.report.history import History, read_history
from dynamite_fl.run_config import Settings, TrainingJob, to_toml
from dynamite_fl.stream.buffer import POLICIES

FEDAVG = "fedavg"
_SUMMARY = ("accuracy", "rounds", "seconds", "cost", "worst_class", "stream_loss")
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


@dataclass(frozen=True, eq=False)
class Result:
    """What came of a run."""

    contender: str
    seed: int
    folder: Path
    ended: str
    history: History


@dataclass(frozen=True)
class Spread:
    """Numbers summed up.

    Attributes:
        mean: Of all.
        deviation: Their standard deviation; None for a single one.
        least: Of all.
        most: Of all.

    Example:
        >>> spread_of([1.0, 2.0, 3.0])
        Spread(mean=2.0, deviation=1.0, least=1.0, most=3.0)
    """

    mean: float
    deviation: float | None
    least: float
    most: float


@dataclass(frozen=True, eq=False)
class Row:
    """A contender over its seeds.

    Attributes:
        contender: Its name.
        results: One a seed that finished.
        accuracy: At the end.
        rounds: That were played.
        seconds: Of virtual time.
        cost: Of it all.
        worst_class: Accuracy of each seed's worst class at the end; None without classes.
        stream_loss: Of all that has arrived, at the end; None where data does not stream.
        reached: How many seeds came to the target.
        seconds_to_target: Of those that did; None if none did.
        cost_to_target: The same for the cost.
    """

    contender: str
    results: tuple[Result, ...]
    accuracy: Spread
    rounds: Spread
    seconds: Spread
    cost: Spread
    worst_class: Spread | None
    stream_loss: Spread | None
    reached: int
    seconds_to_target: Spread | None
    cost_to_target: Spread | None


@dataclass(frozen=True)
class Target:
    """The accuracy to reach, and whose mean it is; None if it was given."""

    accuracy: float
    mean_of: str | None


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


def spread_of(values: Iterable[float]) -> Spread:
    """Mean, standard deviation and range."""
    found = [float(value) for value in values]
    deviation = statistics.stdev(found) if len(found) > 1 else None
    return Spread(statistics.fmean(found), deviation, min(found), max(found))


def target_of(results: Sequence[Result], given: float | None) -> Target:
    """The accuracy that was asked for, else FedAvg's mean, else that of who comes first.

    ``results`` must not be empty, and be in the order in which contenders were named.
    """
    if given is not None:
        return Target(given, None)
    names = [result.contender for result in results]
    chosen = next((name for name in names if name.partition("+")[0] == FEDAVG), names[0])
    finals = [each.history.final_accuracy for each in results if each.contender == chosen]
    return Target(statistics.fmean(finals), chosen)


def summed_up(results: Sequence[Result], target: float) -> list[Row]:
    """A row for each contender, the most accurate first."""
    names = dict.fromkeys(result.contender for result in results)
    rows = [_row([each for each in results if each.contender == name], target) for name in names]
    return sorted(rows, key=lambda row: -row.accuracy.mean)


def _row(results: Sequence[Result], target: float) -> Row:
    first = [each.history.first_reaching(target) for each in results]
    reached = [line for line in first if line is not None]
    worsts = [each.history.worst_class for each in results]

    def spread(of: Callable[[History], float]) -> Spread:
        return spread_of(of(each.history) for each in results)

    return Row(
        contender=results[0].contender,
        results=tuple(results),
        accuracy=spread(lambda history: history.final_accuracy),
        rounds=spread(lambda history: history.lines[-1]["round"]),
        seconds=spread(lambda history: history.lines[-1]["seconds"]),
        cost=spread(lambda history: history.lines[-1]["cost"]),
        worst_class=_known(worst and worst[1] for worst in worsts),
        stream_loss=_known(each.history.last("stream_loss") for each in results),
        reached=len(reached),
        seconds_to_target=_known(each["seconds"] for each in reached),
        cost_to_target=_known(each["cost"] for each in reached),
    )


def _known(values: Iterable[float | None]) -> Spread | None:
    """The spread of those that are known, None if none is."""
    found = [value for value in values if value is not None]
    return spread_of(found) if found else None


def accuracies(row: Row) -> dict[int, float]:
    """Final accuracy by seed."""
    return {each.seed: each.history.final_accuracy for each in row.results}


def row_to_json(row: Row, target: float) -> dict[str, Any]:
    """A row and its runs for scripts."""
    summary = [*_SUMMARY, "seconds_to_target", "cost_to_target"]
    spreads = {name: getattr(row, name) for name in summary}
    return {
        "controller": row.contender,
        "seeds": len(row.results),
        "reached_target": row.reached,
        **{name: None if value is None else asdict(value) for name, value in spreads.items()},
        "runs": [_result_to_json(each, target) for each in row.results],
    }


def _result_to_json(result: Result, target: float) -> dict[str, Any]:
    last, reached = result.history.lines[-1], result.history.first_reaching(target)
    return {
        "seed": result.seed,
        "folder": str(result.folder),
        "ended": result.ended,
        "accuracy": result.history.final_accuracy,
        "rounds": last["round"],
        "seconds": last["seconds"],
        "cost": last["cost"],
        "seconds_to_target": None if reached is None else reached["seconds"],
        "cost_to_target": None if reached is None else reached["cost"],
        "class_accuracy": result.history.last("class_accuracy"),
        "stream_loss": result.history.last("stream_loss"),
    }


def json_ready(value: Any) -> Any:
    """The same without infinity and NaN, which JSON has no numbers for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: json_ready(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(each) for each in value]
    return value
