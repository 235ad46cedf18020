"""The learning rates that searches try: four in each factor of ten, the same for all jobs.

They do not depend on the job's own rate, so that a search finds the same rates, and a repeated one
the finished runs, whatever rate the job has.
"""

import math

FIRST_RATES = (-8, -4, 0)  # the places of 0.01, 0.1 and 1
PER_DECADE = 4


def rate_at(place: int) -> float:
    """Return the rate at a place, which is an integer; that of 1 is 0.

    Example:
        >>> [rate_at(place) for place in range(-4, 1)]
        [0.1, 0.18, 0.32, 0.56, 1.0]
    """
    return float(f"{10 ** (place / PER_DECADE):.2g}")


def place_of(rate: float) -> int:
    """Return the place of the rate that is nearest in proportion.

    Example:
        >>> place_of(0.1), place_of(0.32), place_of(0.29)
        (-4, -2, -2)
    """
    return round(PER_DECADE * math.log10(rate))
