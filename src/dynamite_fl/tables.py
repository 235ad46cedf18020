"""Tables from files that people write: text, CSV, and keys that must be known."""

import csv
import difflib
import io
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any


class JobError(ValueError):
    """A job that cannot be used as it is; the message says what to change."""


def read_text(path: Path) -> str:
    """A text file in UTF-8, with or without the signature that spreadsheets write."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise JobError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise JobError(f"{path} is not a text file in UTF-8") from None


def check_keys(
    name: str, table: Mapping[str, object], known: Collection[str], needed: Iterable[str] = ()
) -> None:
    """Refuse a table with a key that is not known, or without one that is needed.

    Example:
        >>> check_keys("limits", {"dedline": 3}, known=["deadline", "budget"])
        Traceback (most recent call last):
        dynamite_fl.tables.JobError: limits has no key dedline; did you mean deadline?
    """
    for key in table:
        if key not in known:
            raise JobError(f"{name} has no key {key or 'without a name'}; {suggestion(key, known)}")
    for key in needed:
        if table.get(key) is None:
            raise JobError(f"{name} lacks {key}")


def suggestion(word: str, known: Collection[str]) -> str:
    """What may have been meant."""
    nearest = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"


def read_csv(
    path: Path, known: Collection[str], needed: Iterable[str], words: Collection[str]
) -> dict[str, list[Any]]:
    """The columns of a CSV file: numbers, but for those that hold words."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), skipinitialspace=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(path, header, known, needed)
        numbered = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise JobError(f"{path}, line {reader.line_num}: {error}") from None
    if not numbered:
        raise JobError(f"{path} has no client: it needs a line for each, below the column names")
    for line, row in numbered:
        if len(row) != len(header):
            raise JobError(f"{path}, line {line} has {len(row)} of {len(header)} columns")
    lines, rows = zip(*numbered, strict=True)
    return {
        name: [word.strip() for word in column]
        if name in words
        else _numbers(path, lines, name, column)
        for name, column in zip(header, zip(*rows, strict=True), strict=True)
    }


def _check_header(
    path: Path, header: list[str], known: Collection[str], needed: Iterable[str]
) -> None:
    if header and any(separator in header[0] for separator in (";", "\t")):
        raise JobError(f"{path}: separate columns by commas")
    check_keys(str(path), dict.fromkeys(header, ""), known, needed)
    if len(set(header)) < len(header):
        raise JobError(f"{path} has two columns of one name")


def _numbers(path: Path, lines: Iterable[int], name: str, column: Iterable[str]) -> list[float]:
    numbers = []
    for line, text in zip(lines, column, strict=True):
        try:
            numbers.append(float(text))
        except ValueError:
            raise JobError(f"{path}, line {line}: {name} is {text!r}, not a number") from None
    return numbers
