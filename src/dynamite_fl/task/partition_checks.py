"""Checks of what is to be split among clients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray


def class_labels(targets: NDArray[Any], recipe: str) -> IntArray:
    """Return targets as labels; refuse targets that are not one whole number for each sample."""
    if targets.ndim != 1 or targets.dtype.kind not in "iub":
        raise InvalidInput(
            f"{recipe} splits by class and needs one whole-number label for each sample, but the "
            f"targets are {targets.dtype} of shape {targets.shape}: use the partition unequal, "
            "wang with case 1 or 3, by_owner or fixed"
        )
    return targets.astype(np.int64)


def check_enough(samples: int, needed: int, what: str = "clients") -> None:
    """Refuse fewer samples than clients or shards, each of which needs one."""
    if needed < 1:
        raise InvalidInput(f"the number of {what} is {needed}: it must be 1 or more")
    if samples < needed:
        raise InvalidInput(
            f"{samples} samples are not enough for {needed} {what}, as each needs at least one: "
            "only the partitions wang with case 3 and fixed let clients share samples"
        )


def checked_list(field: str, values: object) -> Sequence[Any]:
    """Return a list as it is; refuse what is no list, and an empty one."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise InvalidInput(f"{field} must be a list of lists, one for each client")
    return values  # type: ignore[return-value]


def checked_rows(field: str, indices: object) -> tuple[int, ...]:
    """Return row numbers as a tuple; refuse an empty list and what is not a row number."""
    try:
        rows = np.asarray(indices)
    except ValueError:  # lists of unequal lengths inside
        rows = np.empty(0)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not rows.size or rows.min() < 0:
        raise InvalidInput(f"{field} must be a list of at least one whole number, 0 or more")
    return tuple(rows.tolist())
