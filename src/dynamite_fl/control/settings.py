"""Checks of controllers' settings: a wrong one is refused by its name."""

import math


def require_whole(name: str, value: int) -> None:
    """Refuse what is no whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}: it must be a whole number, 1 or more")


def require_positive(name: str, value: float) -> None:
    """Refuse what is no finite number above 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise ValueError(f"{name} is {value!r}: it must be a finite number, above 0")


def require_memory(value: float) -> None:
    """Refuse a memory outside (0, 1]."""
    require_positive("memory", value)
    if value > 1:
        raise ValueError(f"memory is {value!r}: it must be above 0 and at most 1")
