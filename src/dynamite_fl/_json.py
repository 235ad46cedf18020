"""Values for JSON, which has no NaN and no infinity."""

import math
from collections.abc import Mapping
from typing import Any


def json_ready(value: Any) -> Any:
    """Return the value with None in place of every NaN and infinity.

    Example:
        >>> json_ready({"bound": float("inf"), "steps": (1, 2)})
        {'bound': None, 'steps': [1, 2]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: json_ready(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(entry) for entry in value]
    return value
