"""A job file: what to plan, as TOML, checked key by key.

A job has the tables ``limits``, ``geometry`` and ``fleet``, whose keys are those of the
records ``Limits``, ``LossGeometry`` and ``Fleet``; ``fleet`` may also name a CSV file with
these as its columns.
"""

import inspect
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from dynamite_fl.records import Fleet, Limits, LossGeometry
from dynamite_fl.tables import JobError as JobError
from dynamite_fl.tables import check_keys, read_csv, read_text

Record = TypeVar("Record")

_FILES = ("fleet", "devices")  # tables that may be a CSV file instead
_TABLES = {"limits": Limits, "geometry": LossGeometry, "fleet": Fleet}


@dataclass(frozen=True, eq=False)
class Job:
    """A checked job, and the files it came from."""

    fleet: Fleet
    limits: Limits
    geometry: LossGeometry
    files: tuple[Path, ...]


def load_job(path: Path | None = None, overrides: Iterable[str] = ()) -> Job:
    """The job in a file, or the embedded one, with overrides such as ``limits.deadline=500``.

    Example:
        >>> job = load_job(overrides=["limits.deadline=2000"])
        >>> len(job.fleet), job.limits.deadline, job.fleet.label(0)
        (20, 2000, 'small-1')
    """
    tables = read_tables(path, "default.toml", overrides, list(_TABLES))
    files = [] if path is None else [path]
    entry = tables["fleet"]
    if isinstance(entry, str):
        files.append((Path() if path is None else path.parent) / entry)
        entry = read_csv(files[-1], *_keys(Fleet), words=["name"])
    return Job(
        fleet=table_record(Fleet, "fleet", entry),
        limits=table_record(Limits, "limits", tables["limits"]),
        geometry=table_record(LossGeometry, "geometry", tables["geometry"]),
        files=tuple(files),
    )


def read_tables(
    path: Path | None,
    embedded: str,
    overrides: Iterable[str],
    names: list[str],
    optional: list[str] | None = None,
) -> dict[str, Any]:
    """A job's tables from a file or an embedded one: all of these names, and no unknown ones."""
    tables = _read_toml(path, embedded)
    for override in overrides:
        _override(tables, override)
    check_keys("the job", tables, [*names, *(optional or [])])
    for name in names:
        if tables.get(name) is None:
            raise JobError(_lacks(name, tables))
    return tables


def in_job_words(message: str) -> str:
    """A message of the records, about a job: ``Limits.rounds`` is ``limits.rounds`` there."""
    for table, record in _TABLES.items():
        message = message.replace(f"{record.__name__}.", f"{table}.")
    return message


def _read_toml(path: Path | None, embedded: str) -> dict[str, Any]:
    if path is None:
        text = (resources.files("dynamite_fl") / embedded).read_text(encoding="utf-8")
    else:
        text = read_text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path} is not valid TOML: {error}") from None


def _override(tables: dict[str, Any], override: str) -> None:
    """Set a key by its path; ``none`` removes it. Files are meant from where one is."""
    path, equals, text = (part.strip() for part in override.partition("="))
    if not path or not equals:
        raise JobError(f"--set {override}: write it as table.key=value")
    *parents, key = path.split(".")
    table = tables
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise JobError(f"--set {override}: {parent} is not a table of keys")
    table[key] = _value(text)
    if path in _FILES and isinstance(table[key], str) and table[key].endswith(".csv"):
        table[key] = str(Path(table[key]).absolute())


def _value(text: str) -> Any:
    """A TOML value, None for none, or the text itself so that plain words need no quotes."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _lacks(name: str, tables: Mapping[str, Any]) -> str:
    """What to say of a missing table, which TOML may have put elsewhere."""
    for other, table in tables.items():
        if isinstance(table, dict) and name in table:
            return f"the job has {name} inside [{other}]: write it above all tables"
    return f"the job lacks [{name}]"


def table_record(record: type[Record], name: str, table: object) -> Record:
    """The record that a table spells out."""
    if not isinstance(table, dict):
        kinds = "a table" if record is not Fleet else "a table or the name of a CSV file"
        raise JobError(f"{name} must be {kinds}")
    check_keys(name, table, *_keys(record))
    try:
        return record(**{key: value for key, value in table.items() if value is not None})
    except ValueError as error:
        message = in_job_words(str(error)).replace(f"{record.__name__}.", f"{name}.")
        raise JobError(message) from None


def _keys(record: type[Any]) -> tuple[list[str], list[str]]:
    """The keys that a record knows, and those that it needs."""
    fields = inspect.signature(record).parameters
    return list(fields), [key for key, field in fields.items() if field.default is field.empty]
