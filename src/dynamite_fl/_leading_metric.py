"""The metric that leads, and the only place where values of it are compared.

Comparisons, targets, hindsight, reports and trackers use it. Nothing here needs PyTorch or NumPy.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class LeadingMetric:
    """The name of the metric that leads, and which of its values are better.

    Attributes:
        name: The metric's name; ``loss`` if the task has no metric.
        higher_is_better: Whether a larger value is better.

    Example:
        >>> rmse = LeadingMetric("rmse", higher_is_better=False)
        >>> rmse.better(0.5, 0.7), rmse.best([0.7, None, 0.5]), rmse.has_reached(0.7, target=0.6)
        (True, 0.5, False)
    """

    name: str
    higher_is_better: bool

    def sort_key(self, value: float) -> float:
        """Return a number that is smaller for a better value, to sort the best first."""
        return -value if self.higher_is_better else value

    def better(self, value: float, other: float) -> bool:
        """Return whether a value is better than another one."""
        return self.sort_key(value) < self.sort_key(other)

    def has_reached(self, value: float, target: float) -> bool:
        """Return whether a value is at least as good as a target."""
        return self.sort_key(value) <= self.sort_key(target)

    def gain(self, start: float, end: float) -> float:
        """Return how much better the end is than the start; negative if it is worse.

        Example:
            >>> LeadingMetric("rmse", higher_is_better=False).gain(2.0, 0.5)
            1.5
        """
        return self.sort_key(start) - self.sort_key(end)

    def best(self, values: Iterable[float | None]) -> float:
        """Return the best of the values that are not None; NaN if there is none."""
        known = [value for value in values if value is not None]
        return min(known, key=self.sort_key, default=math.nan)

    def worst(self, values: Iterable[float | None]) -> float:
        """Return the worst of the values that are not None; NaN if there is none."""
        known = [value for value in values if value is not None]
        return max(known, key=self.sort_key, default=math.nan)


ACCURACY = LeadingMetric("accuracy", higher_is_better=True)
