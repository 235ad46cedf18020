"""From a TOML file to checked tables, and back: what all kinds of job share.

Nothing here builds what a job describes, so reading one is quick and needs no PyTorch.
"""

import datetime
import inspect
import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dynamite_fl._csv import read_text
from dynamite_fl._validate import check_keys
from dynamite_fl.errors import InvalidInput, JobError

Record = TypeVar("Record")
Tables = dict[str, Any]

# Keys whose value may be the name of a CSV file. With ``--set`` it is relative to where one is.
_FILES = ("fleet", "devices")
# Tables that may be written as just one of their keys.
_NAMES = {"controller": "name", "server": "name", "averaging": "name", "task": "use"}


def read_tables(path: Path | None, embedded: str, overrides: Iterable[str]) -> Tables:
    """Read a job file, or the embedded one, and apply overrides such as ``limits.deadline=50``."""
    tables = _read_toml(path, embedded)
    for override in overrides:
        _override(tables, override)
    return tables


def check_tables(tables: Tables, needed: Sequence[str], optional: Sequence[str] = ()) -> None:
    """Refuse a job with an unknown table, or without a needed one."""
    check_keys("the job", tables, [*needed, *optional])
    for name in needed:
        if tables.get(name) is None:
            raise JobError(_missing(name, tables))


def table_record(record: type[Record], name: str, table: object) -> Record:
    """Make the record whose fields a table holds; errors speak of the table's keys.

    Example:
        >>> from dynamite_fl.records import Limits
        >>> table_record(Limits, "limits", {"deadline": 0, "budget": 1})
        Traceback (most recent call last):
        dynamite_fl.errors.JobError: limits lacks the key 'cost_per_sample'
    """
    if not isinstance(table, dict):
        raise JobError(f"{name} must be a table of keys")
    parameters = inspect.signature(record).parameters
    needed = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]
    check_keys(name, table, list(parameters), needed)
    try:
        return record(**{key: value for key, value in table.items() if value is not None})
    except InvalidInput as error:
        raise JobError(str(error).replace(f"{record.__name__}.", f"{name}.")) from None


def to_toml(tables: Mapping[str, Any]) -> str:
    """Write tables as TOML.

    Example:
        >>> print(to_toml({"devices": "vm20", "limits": {"deadline": math.inf}}), end="")
        devices = "vm20"
        <BLANKLINE>
        [limits]
        deadline = inf
    """
    words = [f"{key} = {_toml(value)}" for key, value in tables.items() if not _is_table(value)]
    blocks = ["\n".join(words)] if words else []
    for name, table in tables.items():
        if _is_table(table):
            rows = [f"{_key(key)} = {_toml(v)}" for key, v in table.items() if v is not None]
            blocks.append("\n".join([f"[{_key(name)}]", *rows]))
    return "\n\n".join(blocks) + "\n"


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Say in which keys two jobs differ, one sentence part for each.

    Example:
        >>> differences({"training": {"seed": 0}}, {"training": {"seed": 1}})
        ['training.seed is 0 there and 1 here']
    """
    differing = []
    for key in dict.fromkeys([*there, *here]):
        left, right = there.get(key), here.get(key)
        if left == right or (left is not None and right is not None and _same(left, right)):
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            differing += [f"{key}.{part}" for part in differences(left, right)]
        else:
            differing.append(f"{key} is {_shown(left)} there and {_shown(right)} here")
    return differing


def _read_toml(path: Path | None, embedded: str) -> Tables:
    if path is None:
        text = (resources.files("dynamite_fl.job") / embedded).read_text(encoding="utf-8")
    else:
        text = read_text(path, may_be_pipe=True)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise JobError(f"{path} is not valid: its lists or tables are nested too deeply") from None
    except ValueError as error:  # also of numbers with too many digits
        raise JobError(f"{path} is not valid TOML: {error}") from None


def _override(tables: Tables, override: str) -> None:
    """Set a key by its path; ``none`` removes it."""
    path, equals, text = (part.strip() for part in override.partition("="))
    if not path or not equals:
        raise JobError(f"--set {override}: write it as table.key=value")
    *parents, key = path.split(".")
    table = tables
    for parent in parents:
        if parent in _NAMES and isinstance(table.get(parent), str):
            table[parent] = {_NAMES[parent]: table[parent]}  # the short form of a table
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise JobError(f"--set {override}: {parent} is not a table of keys")
    value = _parsed(text)
    if path in _FILES and isinstance(value, str) and value.endswith(".csv"):
        value = str(Path(value).absolute())
    table[key] = value


def _parsed(text: str) -> Any:
    """Read a TOML value; a plain word needs no quotes, and ``none`` is None."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _missing(name: str, tables: Tables) -> str:
    """Say that a table is missing; TOML may have put it inside another one."""
    for other, table in tables.items():
        if isinstance(table, dict) and name in table:
            return f"the job has {name} inside [{other}]: write it above all tables"
    return f"the job lacks [{name}]"


def _same(left: object, right: object) -> bool:
    """Return whether two values are written alike; a NaN is not equal to itself."""
    return not _is_table(left) and not _is_table(right) and _toml(left) == _toml(right)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _key(key: str) -> str:
    plain = key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    return key if plain else _quoted(key)


def _toml(value: object) -> str:
    """Write a value; numbers and truth values are the same in JSON and TOML, except infinity."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        parts = [f"{_key(key)} = {_toml(each)}" for key, each in value.items() if each is not None]
        return f"{{ {', '.join(parts)} }}" if parts else "{}"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf, -inf or nan, as TOML writes them
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return json.dumps(value)


def _quoted(text: str) -> str:
    """Write text; unlike JSON, TOML refuses surrogate pairs and a bare delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _shown(value: object) -> str:
    """Show a value for a message, cut short."""
    if value is None:
        return "not set"
    text = _toml(value)
    return text if len(text) <= 60 else text[:57] + "..."
