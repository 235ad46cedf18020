"""Checked numbers, columns, names and keys: one way to refuse a value.

Every function names the field in its error and says what the value must be.
"""

import difflib
import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamite_fl.errors import InvalidInput, JobError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Beyond these, products of a few quantities overflow or underflow a double.
LARGEST, SMALLEST = 1e30, 1e-30
_LARGEST_COUNT = 2**53  # the largest whole number up to which a double holds all

_LONGEST_NAME = 200  # bytes; file systems have 255, and names get endings

# Single numbers


def check_number(
    field: str,
    value: object,
    *,
    positive: bool = False,
    finite: bool = True,
    largest: float = LARGEST,
) -> None:
    """Refuse a value that is no number, negative or too large, and on request zero or infinity.

    Example:
        >>> check_number("memory", 1.5, positive=True, largest=1)
        Traceback (most recent call last):
        dynamite_fl.errors.InvalidInput: memory is 1.5: it must be a number above 0, at most 1
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInput(f"{field} is {value!r}: {_number_rule(positive, finite, largest)}")
    in_range = (SMALLEST if positive else 0) <= value <= largest  # False for NaN
    if not in_range and (finite or value != math.inf):
        huge = isinstance(value, int) and abs(value) > sys.float_info.max
        shown = f"a number of {len(str(value))} digits" if huge else f"{value:g}"
        raise InvalidInput(f"{field} is {shown}: {_number_rule(positive, finite, largest)}")


def check_whole(field: str, value: object, *, least: int = 1, most: int | None = None) -> None:
    """Refuse what is not a whole number in a range.

    Example:
        >>> check_whole("stream.size", 2.5, least=0)
        Traceback (most recent call last):
        dynamite_fl.errors.InvalidInput: stream.size is 2.5: it must be a whole number, 0 or more
    """
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_whole and least <= value and (most is None or value <= most):  # type: ignore[operator]
        return
    rule = f"{least} or more" if most is None else f"from {least} to {most:,}"
    raise InvalidInput(f"{field} is {_shown(value)}: it must be a whole number, {rule}")


def _shown(value: object) -> str:
    """Show a value in a message; a whole number of many digits is described instead."""
    if isinstance(value, int) and abs(value) > _LARGEST_COUNT:
        return f"a number of more than {len(str(_LARGEST_COUNT)) - 1} digits"
    return repr(value)


def _number_rule(positive: bool, finite: bool, largest: float) -> str:
    least = "above 0" if positive else "0 or more"
    return f"it must be a number {least}, at most {largest:g}{'' if finite else ', or inf'}"


# Columns: one entry per client, read-only


def column_length(field: str, values: ArrayLike) -> int:
    """Return how many entries a column has; refuse a single number.

    Example:
        >>> column_length("Devices.samples_per_second", [90, 360])
        2
    """
    given = _floats(field, values)
    if given.ndim != 1:
        raise InvalidInput(f"{field} must be a list with one entry for each client")
    if given.size == 0:
        raise InvalidInput(f"{field} is empty: it needs at least one entry")
    return given.size


def column(
    field: str,
    values: ArrayLike,
    n: int,
    *,
    positive: bool = False,
    finite: bool = True,
    largest: float = LARGEST,
) -> FloatArray:
    """Return a read-only column of n checked numbers; a single number is repeated.

    Example:
        >>> column("Devices.latency", 0.5, 2).tolist()
        [0.5, 0.5]
    """
    numbers = _broadcast(field, values, n)
    in_range = (numbers >= (SMALLEST if positive else 0.0)) & (numbers <= largest)  # not NaN
    allowed = in_range | (np.isposinf(numbers) & (not finite))
    if not allowed.all():
        index = int(np.argmin(allowed))
        rule = _number_rule(positive, finite, largest)
        raise InvalidInput(f"{field}[{index}] is {numbers[index]:g}: {rule}")
    numbers.setflags(write=False)
    return numbers


def count_column(field: str, values: ArrayLike, n: int) -> FloatArray:
    """Return a read-only column of n whole numbers of at least 1 whose sum is exact."""
    numbers = column(field, values, n, positive=True)
    whole = numbers == np.floor(numbers)
    if not whole.all():
        index = int(np.argmin(whole))
        raise InvalidInput(f"{field}[{index}] is {numbers[index]:g}: it must be a whole number")
    if numbers.sum() > _LARGEST_COUNT:
        raise InvalidInput(f"{field} sums to {numbers.sum():.3g}, more than can be counted")
    return numbers


def index_column(field: str, values: ArrayLike, n: int, *, among: int) -> IntArray:
    """Return a read-only column of n indices into a list of a given length, -1 for none.

    Example:
        >>> index_column("Devices.trace", [0, -1], 2, among=1).tolist()
        [0, -1]
    """
    numbers = _broadcast(field, values, n)
    allowed = (numbers == np.floor(numbers)) & (numbers >= -1) & (numbers < among)
    if not allowed.all():
        index = int(np.argmin(allowed))
        raise InvalidInput(
            f"{field}[{index}] is {numbers[index]:g}: it must be a whole number below {among}, "
            "or -1 for none"
        )
    whole = numbers.astype(np.int64)
    whole.setflags(write=False)
    return whole


def name_column(field: str, values: Sequence[str], n: int) -> tuple[str, ...]:
    """Return n printable names that all differ."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != n:
        raise InvalidInput(f"{field} must be a list of {n} names, one for each client")
    seen: set[str] = set()
    for name in values:
        if not isinstance(name, str) or not name.isprintable():
            raise InvalidInput(f"{field} has {name!r}: names must be printable text")
        if name in seen:
            raise InvalidInput(f"{field} has {name!r} twice: names must differ")
        seen.add(name)
    return tuple(values)


def _broadcast(field: str, values: ArrayLike, n: int) -> FloatArray:
    """Return a new column of n numbers; a single number is repeated."""
    given = _floats(field, values)
    if given.ndim > 1 or (given.ndim == 1 and given.size != n):
        raise InvalidInput(
            f"{field} has {given.size} entries, but {n} are needed: "
            "give one number for all, or one for each"
        )
    return np.broadcast_to(given, (n,)).copy()


def _floats(field: str, values: ArrayLike) -> FloatArray:
    """Return values as numbers; refuse text and truth values, which NumPy would convert."""
    try:
        given = np.asarray(values)
        has_truth = isinstance(values, list | tuple) and any(isinstance(v, bool) for v in values)
        if given.dtype.kind in "iuf" and not has_truth:
            return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    raise InvalidInput(f"{field} must be a number for each client, or one for all")


# Names and keys


def check_keys(
    table_name: str,
    table: Mapping[str, object],
    known: Collection[str],
    needed: Iterable[str] = (),
) -> None:
    """Refuse a table with an unknown key, or without a needed one.

    Example:
        >>> check_keys("limits", {"dedline": 3}, known=["deadline", "budget"])
        Traceback (most recent call last):
        dynamite_fl.errors.JobError: limits has no key 'dedline': did you mean 'deadline'?
    """
    for key in table:
        if key not in known:
            raise JobError(f"{table_name} has no key {key!r}: {suggestion(key, known)}")
    for key in needed:
        if table.get(key) is None:
            raise JobError(f"{table_name} lacks the key {key!r}")


def check_settings(owner: str, settings: Iterable[str], known: Collection[str]) -> None:
    """Refuse a setting that something does not have.

    Example:
        >>> check_settings("averaging median", {"share": 0.3}, known=[])
        Traceback (most recent call last):
        dynamite_fl.errors.JobError: averaging median has no setting 'share': it has none
    """
    for setting in settings:
        if setting not in known:
            hint = suggestion(setting, known) if known else "it has none"
            raise JobError(f"{owner} has no setting {setting!r}: {hint}")


def check_folder_name(field: str, name: str) -> None:
    """Refuse a text that is not the name of a folder, such as a path that leads elsewhere.

    Example:
        >>> check_folder_name("--name", "../x")
        Traceback (most recent call last):
        dynamite_fl.errors.JobError: --name is '../x': it must be the name of a folder, without a /
    """
    ways = name in ("", ".", "..") or any(letter in name for letter in "/\\")
    if ways or not name.isprintable() or len(name.encode(errors="replace")) > _LONGEST_NAME:
        shown = repr(name if len(name) <= _LONGEST_NAME else f"{name[:40]}...")
        raise JobError(f"{field} is {shown}: it must be the name of a folder, without a /")


def check_name(what: str, name: object, known: Collection[str]) -> None:
    """Refuse a name that is not among the known ones.

    Example:
        >>> check_name("model", "smv", ["softmax", "svm"])
        Traceback (most recent call last):
        dynamite_fl.errors.InvalidInput: there is no model 'smv': did you mean 'svm'?
    """
    if not isinstance(name, str) or name not in known:
        raise InvalidInput(f"there is no {what} {name!r}: {suggestion(str(name), known)}")


def suggestion(word: str, known: Collection[str]) -> str:
    """Return a question with the closest known word, or a list of all known words.

    Example:
        >>> suggestion("vm2", ["vm20", "phones"]), suggestion("x", ["vm20", "phones"])
        ("did you mean 'vm20'?", 'use one of vm20, phones')
    """
    closest = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {closest[0]!r}?" if closest else f"use one of {', '.join(known)}"
