"""Columns of numbers, checked: one entry a device, read-only, an error names the entry."""

import math

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.records import FloatArray, IntArray


def entries(field: str, values: ArrayLike) -> int:
    """How many entries a column has that must be a list.

    Example:
        >>> entries("Devices.samples_per_second", [90, 360])
        2
    """
    given = _floats(field, values)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"{field} must be a list with at least one entry")
    return given.size


def column(
    field: str,
    values: ArrayLike,
    n: int,
    *,
    positive: bool = False,
    finite: bool = True,
    most: float = math.inf,
) -> FloatArray:
    """A read-only column of n checked numbers, one number repeated if only one is given.

    Example:
        >>> column("Devices.latency", 0.5, 2).tolist()
        [0.5, 0.5]
    """
    given = _floats(field, values)
    if given.ndim > 1 or (given.ndim == 1 and given.size != n):
        raise ValueError(
            f"{field} has shape {given.shape}, but there are {n} entries in the first column: "
            "give one number for all, or one for each"
        )
    numbers = np.broadcast_to(given, (n,)).copy()
    in_range = (numbers > 0 if positive else numbers >= 0) & (numbers <= most)  # no NaN is
    allowed = in_range & (np.isfinite(numbers) | (not finite))
    if not allowed.all():
        index = int(np.argmin(allowed))
        rule = _rule(positive, finite, most)
        raise ValueError(f"{field}[{index}] is {numbers[index]:g}: it must be {rule}")
    numbers.setflags(write=False)
    return numbers


def places(field: str, values: ArrayLike, n: int, *, among: int) -> IntArray:
    """A read-only column of n places in a list of some length, -1 for none.

    Example:
        >>> places("Devices.trace", [0, -1], 2, among=1).tolist()
        [0, -1]
    """
    given = _floats(field, values)
    if given.shape not in [(), (n,)]:
        raise ValueError(f"{field} has shape {given.shape}: give one for all, or one for each")
    numbers = np.broadcast_to(given, (n,))
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


def _floats(field: str, values: ArrayLike) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{field} must be numbers: {error}") from None


def _rule(positive: bool, finite: bool, most: float) -> str:
    if most < math.inf:
        return f"a number from 0 to {most:g}"
    sign = "above 0" if positive else "0 or more"
    return f"a {'finite ' if finite else ''}number, {sign}"
