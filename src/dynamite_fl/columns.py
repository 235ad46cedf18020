"""Columns of numbers, checked: one entry a client, read-only, an error names the entry."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LARGEST, SMALLEST = 1e30, 1e-30  # beyond, products of a few quantities leave the doubles
_MOST_COUNTED = 2**53  # whole numbers that doubles hold exactly


def entries(field: str, values: ArrayLike) -> int:
    """How many entries a column has that must be a list.

    Example:
        >>> entries("Devices.samples_per_second", [90, 360])
        2
    """
    given = _floats(field, values)
    if given.ndim != 1:
        raise ValueError(f"{field} must be a list, one entry for each")
    if given.size == 0:
        raise ValueError(f"{field} is empty: there must be at least one entry")
    return given.size


def column(
    field: str,
    values: ArrayLike,
    n: int,
    *,
    positive: bool = False,
    finite: bool = True,
    most: float = LARGEST,
) -> FloatArray:
    """A read-only column of n checked numbers, one number repeated if only one is given.

    Example:
        >>> column("Devices.latency", 0.5, 2).tolist()
        [0.5, 0.5]
    """
    numbers = _spread(field, values, n)
    in_range = (numbers >= (SMALLEST if positive else 0.0)) & (numbers <= most)  # no NaN is
    allowed = in_range | (np.isposinf(numbers) & (not finite))
    if not allowed.all():
        index = int(np.argmin(allowed))
        raise ValueError(f"{field}[{index}] is {numbers[index]:g}: {rule(positive, finite, most)}")
    numbers.setflags(write=False)
    return numbers


def counts(field: str, values: ArrayLike, n: int) -> FloatArray:
    """A read-only column of n whole numbers, at least 1, that can be added up."""
    numbers = column(field, values, n, positive=True)
    whole = numbers == np.floor(numbers)
    if not whole.all():
        index = int(np.argmin(whole))
        raise ValueError(f"{field}[{index}] is {numbers[index]:g}: it must be a whole number")
    if numbers.sum() > _MOST_COUNTED:
        raise ValueError(f"{field} has {numbers.sum():.3g} in all, more than can be counted")
    return numbers


def places(field: str, values: ArrayLike, n: int, *, among: int) -> IntArray:
    """A read-only column of n places in a list of some length, -1 for none.

    Example:
        >>> places("Devices.trace", [0, -1], 2, among=1).tolist()
        [0, -1]
    """
    numbers = _spread(field, values, n)
    allowed = (numbers == np.floor(numbers)) & (numbers >= -1) & (numbers < among)
    if not allowed.all():
        index = int(np.argmin(allowed))
        raise ValueError(
            f"{field}[{index}] is {numbers[index]:g}: it must be a whole number below {among}, "
            "or -1 for none"
        )
    whole = numbers.astype(np.int64)
    whole.setflags(write=False)
    return whole


def names(field: str, values: Sequence[str], n: int) -> tuple[str, ...]:
    """N names that differ and can be printed."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != n:
        raise ValueError(f"{field} must be a list of {n} names, one for each client")
    seen: set[str] = set()
    for each in values:
        if not isinstance(each, str) or not each.isprintable():
            raise ValueError(f"{field} has {each!r}: names must be printable text")
        if each in seen:
            raise ValueError(f"{field} has {each!r} twice: names must differ")
        seen.add(each)
    return tuple(values)


def rule(positive: bool, finite: bool, most: float = LARGEST) -> str:
    """What a number must be, for an error message."""
    least = "above 0" if positive else "0 or more"
    return f"it must be a number, {least} and at most {most:g}{'' if finite else ', or inf'}"


def _spread(field: str, values: ArrayLike, n: int) -> FloatArray:
    """A new column of n numbers, one number repeated if only one is given."""
    given = _floats(field, values)
    if given.ndim > 1 or (given.ndim == 1 and given.size != n):
        raise ValueError(
            f"{field} has {given.size} entries, but {n} are needed: "
            "give one number for all, or one for each"
        )
    return np.broadcast_to(given, (n,)).copy()


def _floats(field: str, values: ArrayLike) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{field} must be a number for each, or one for all") from None
