"""Text and CSV files that people write, read with errors that name the line."""

import csv
import io
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from dynamite_fl._regular import read_regular
from dynamite_fl._validate import check_keys
from dynamite_fl.errors import JobError

_MOST_BYTES = 1_000_000_000  # more than the columns of ten million devices


def read_text(path: Path, *, may_be_pipe: bool = False) -> str:
    """Read a text file in UTF-8, with or without the signature that spreadsheets write.

    Args:
        path: The file.
        may_be_pipe: Whether it may be a pipe, which a user names on the command line.
    """
    try:
        if may_be_pipe and path.is_fifo():
            return path.read_text(encoding="utf-8-sig")
        return read_regular(path, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise JobError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise JobError(f"{path} is not a text file in UTF-8") from None


def read_csv(
    path: Path, known: Collection[str], needed: Iterable[str], words: Collection[str]
) -> dict[str, list[Any]]:
    """Read the columns of a CSV file as numbers, or as text for those that hold words.

    Args:
        path: The file. Its first line has the names of the columns.
        known: All names that a column may have.
        needed: The names that must be there.
        words: The names of columns that hold text.
    """
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
