"""What a static figure shows, as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Series:
    """One contender in one part: points of a curve, or a single bar.

    Attributes:
        name: Whose.
        x: Where; empty for a bar.
        mean: Over seeds.
        spread: One standard deviation over seeds; 0 where there is none.
    """

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    spread: Sequence[float]


@dataclass(frozen=True)
class Part:
    """One pair of axes.

    Attributes:
        title: Above it.
        x_label: Below it; of a bar chart, what the bars are.
        y_label: Beside it.
        series: What it shows; bars if the first has no ``x``.
        percent: Whether numbers are shares, shown as per cent.
        mark: Where a vertical line is, if anywhere.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    percent: bool = False
    mark: float | None = None

    @property
    def has_bars(self) -> bool:
        """Whether it is a bar chart."""
        return bool(self.series) and not self.series[0].x
