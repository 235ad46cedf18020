"""What to plan: limits, a fleet and the loss, from a planning job.

Such a job is for a fleet whose data is not at hand. Its tables ``limits``, ``geometry`` and
``fleet`` have the keys of the records ``Limits``, ``LossGeometry`` and ``Fleet``; ``fleet`` may
also name a CSV file with these as its columns. ``plan_training.py`` makes the same of a training
job.
"""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dynamite_fl._csv import read_csv
from dynamite_fl.errors import JobError
from dynamite_fl.job.read import check_tables, read_tables, table_record
from dynamite_fl.records import Fleet, Limits, LossGeometry

EMBEDDED = "planning.toml"
_TABLES = {"limits": Limits, "geometry": LossGeometry, "fleet": Fleet}


@dataclass(frozen=True, eq=False)
class PlanningJob:
    """What to plan.

    Attributes:
        fleet: The devices.
        limits: The limits of the training.
        geometry: The constants of the loss.
        files: The files that the job was read from.
        notes: Sentences that say where the numbers come from; none if the job has them all.
    """

    fleet: Fleet
    limits: Limits
    geometry: LossGeometry
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def load_planning_job(path: Path | None = None, overrides: Iterable[str] = ()) -> PlanningJob:
    """Load the job in a file, or the embedded one, with overrides applied.

    Example:
        >>> job = load_planning_job(overrides=["limits.deadline=2000"])
        >>> len(job.fleet), job.limits.deadline, job.fleet.label(0)
        (20, 2000, 'small-1')
    """
    tables = read_tables(path, EMBEDDED, overrides)
    check_tables(tables, list(_TABLES))
    files = [] if path is None else [path]
    fleet = tables["fleet"]
    if isinstance(fleet, str):
        files.append((Path() if path is None else path.parent) / fleet)
        fleet = _read_fleet_csv(files[-1])
    if not isinstance(fleet, dict):
        raise JobError("fleet must be a table or the name of a CSV file")
    limits = table_record(Limits, "limits", tables["limits"])
    if limits.epsilon is not None or limits.delta is not None:
        raise JobError(
            "limits.epsilon and limits.delta are for training jobs with a table privacy: give a "
            "planning job the number of rounds that they allow"
        )
    return PlanningJob(
        fleet=table_record(Fleet, "fleet", fleet),
        limits=limits,
        geometry=table_record(LossGeometry, "geometry", tables["geometry"]),
        files=tuple(files),
    )


def is_planning_job(path: Path | None) -> bool:
    """Return whether a job file is a planning job, which has ``fleet`` in place of ``task``.

    Example:
        >>> is_planning_job(None)  # the embedded one
        True
    """
    tables = read_tables(path, EMBEDDED, [])
    return "fleet" in tables or "task" not in tables


def assumed_geometry() -> LossGeometry:
    """Return the constants of the embedded planning job, which are an example."""
    return load_planning_job().geometry


def in_job_words(message: str) -> str:
    """Replace the names of records in a message by those of a job's tables."""
    for table, record in _TABLES.items():
        message = message.replace(f"{record.__name__}.", f"{table}.")
    return message


def _read_fleet_csv(path: Path) -> dict[str, list[object]]:
    parameters = inspect.signature(Fleet).parameters
    needed = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]
    return read_csv(path, list(parameters), needed, words=["name"])
