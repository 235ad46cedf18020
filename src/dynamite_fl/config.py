"""A job file: what to plan, as TOML, checked key by key.

A job has the tables ``limits``, ``geometry`` and ``fleet``, whose keys are those of the
records ``Limits``, ``LossGeometry`` and ``Fleet``; ``fleet`` may also name a CSV file with
these as its columns.
"""

import csv
import difflib
import inspect
import io
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from dynamite_fl.records import Fleet, Limits, LossGeometry

Record = TypeVar("Record")

_TABLES = ["limits", "geometry", "fleet"]


class JobError(ValueError):
    """A job that cannot be used as it is; the message says what to change."""


@dataclass(frozen=True, eq=False)
class Job:
    """A checked job."""

    fleet: Fleet
    limits: Limits
    geometry: LossGeometry


def load_job(path: Path | None = None, overrides: Iterable[str] = ()) -> Job:
    """The job in a file, or the embedded one, with overrides such as ``limits.deadline=500``.

    Example:
        >>> job = load_job(overrides=["limits.deadline=2000"])
        >>> len(job.fleet), job.limits.deadline, job.fleet.label(0)
        (20, 2000, 'small-1')
    """
    if path is None:
        text = (resources.files("dynamite_fl") / "default.toml").read_text(encoding="utf-8")
        folder = Path()
    else:
        text, folder = _read(path), path.parent
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{path} is not valid TOML: {error}") from None
    for override in overrides:
        _override(tables, override)
    _check_keys("the job", tables, _TABLES, _TABLES)
    return Job(
        fleet=_fleet(tables["fleet"], folder),
        limits=_record(Limits, "limits", tables["limits"]),
        geometry=_record(LossGeometry, "geometry", tables["geometry"]),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # spreadsheets write the signature
    except OSError as error:
        raise JobError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise JobError(f"{path} is not a text file in UTF-8") from None


def _override(tables: dict[str, Any], override: str) -> None:
    """Set a key by its path; ``none`` removes it."""
    path, equals, text = (part.strip() for part in override.partition("="))
    if not path or not equals:
        raise JobError(f"--set {override}: write it as table.key=value")
    *parents, key = path.split(".")
    table = tables
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise JobError(f"--set {override}: {parent} is not a table")
    if text == "none":
        table.pop(key, None)
    else:
        table[key] = _value(text)


def _value(text: str) -> Any:
    """A TOML value, or the text itself so that plain words need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _fleet(entry: object, folder: Path) -> Fleet:
    if isinstance(entry, str):
        return _record(Fleet, "fleet", _read_csv(folder / entry))
    if not isinstance(entry, dict):
        raise JobError('fleet must be a table of columns or the name of a CSV file, "fleet.csv"')
    return _record(Fleet, "fleet", entry)


def _read_csv(path: Path) -> dict[str, list[Any]]:
    """A fleet's columns: one line a client below a line of column names."""
    reader = csv.reader(io.StringIO(_read(path), newline=""))
    header = [name.strip() for name in next(reader, [])]
    _check_keys(str(path), dict.fromkeys(header), *_keys(Fleet))
    if len(set(header)) < len(header):
        raise JobError(f"{path} has two columns of one name")
    rows = [row for row in reader if row]
    if not rows:
        raise JobError(f"{path} has no client: it needs a row for each, below the column names")
    for client, row in enumerate(rows):
        if len(row) != len(header):
            raise JobError(f"{path}: client {client} has {len(row)} of {len(header)} columns")
    return {
        name: list(column) if name == "name" else _numbers(path, name, column)
        for name, column in zip(header, zip(*rows, strict=True), strict=True)
    }


def _numbers(path: Path, name: str, column: Iterable[str]) -> list[float]:
    numbers = []
    for client, text in enumerate(column):
        try:
            numbers.append(float(text))
        except ValueError:
            raise JobError(f"{path}: client {client}'s {name} is {text!r}, not a number") from None
    return numbers


def _record(record: type[Record], name: str, table: object) -> Record:
    """The record that a table spells out."""
    if not isinstance(table, dict):
        raise JobError(f"{name} must be a table: [{name}]")
    _check_keys(name, table, *_keys(record))
    try:
        return record(**table)
    except ValueError as error:
        raise JobError(str(error).replace(f"{record.__name__}.", f"{name}.")) from None


def _keys(record: type[Any]) -> tuple[list[str], list[str]]:
    """The keys that a record knows, and those that it needs."""
    fields = inspect.signature(record).parameters
    return list(fields), [key for key, field in fields.items() if field.default is field.empty]


def _check_keys(
    name: str, table: Mapping[str, object], known: list[str], needed: list[str]
) -> None:
    for key in table:
        if key not in known:
            nearest = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"
            raise JobError(f"{name} has no key {key}; {hint}")
    for key in needed:
        if key not in table:
            raise JobError(f"{name} lacks {key}")
