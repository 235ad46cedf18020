"""How many examples a property is tried with."""

from collections.abc import Callable
from typing import Any

from hypothesis import settings

_FEWEST = 10


def examples(count: int) -> Callable[[Any], Any]:
    """Return Hypothesis settings: all examples in `make test-all`, a tenth of them in `make test`.

    Args:
        count: The number of examples in `make test-all`.
    """
    quick = settings.get_current_profile_name() == "quick"
    return settings(max_examples=max(count // 10, _FEWEST) if quick else count)
