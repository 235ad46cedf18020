"""Charts as data: traces and a layout for plotly.js, which draws them in the reader's browser.

A colour that begins with ``--`` is a variable of ``style.css``, so that charts change with the page
in dark mode and in print; ``--s1/0.2`` is the colour ``--s1`` with an opacity of 0.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from dynamite_fl._format import is_share

Numbers = Sequence[float | None]
Trace = dict[str, Any]

COLORS = 8  # style.css has --s1 to --s8
_DASHES = ("solid", "dash", "dot", "dashdot")
_MOST_POINTS = 1000  # of a line; a screen cannot show more


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart of a report.

    Attributes:
        title: Heading above the chart.
        traces: Plotly's traces.
        x: Title of the horizontal axis.
        layout: Plotly's layout, as far as it differs from that of other charts.
        note: Explanation below the chart.
        legend: Names and colours, if the chart has several lines.
        height: Height in pixels.
        wide: Whether the chart takes the whole width of the page.
    """

    title: str
    traces: Sequence[Trace]
    x: str = "round"
    layout: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    legend: Sequence[tuple[str, str]] = ()
    height: int = 260
    wide: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw, for example before the first evaluation."""
        return not any(len(trace["x"]) for trace in self.traces)

    def to_json(self) -> dict[str, Any]:
        """Return the chart as the page's script expects it."""
        axis = {"title": {"text": self.x}, **self.layout.get("xaxis", {})}
        layout = {**self.layout, "xaxis": axis, "height": self.height}
        return {"data": list(self.traces), "layout": layout}


def label(text: str, most: int = 28) -> str:
    """Return a name, shortened and escaped, because plotly interprets markup such as ``<b>``.

    Example:
        >>> label("<b>camera</b>"), label("a name that is long", most=8)
        ('&lt;b&gt;camera&lt;/b&gt;', 'a name …')
    """
    return escape(text if len(text) <= most else f"{text[: most - 1]}…", quote=False)


def color(place: int) -> str:
    """Return the colour of the series at a place, from 0.

    Example:
        >>> color(0), color(8)
        ('--s1', '--s1')
    """
    return f"--s{place % COLORS + 1}"


def line(x: Numbers, y: Numbers, name: str, place: int = 0, **more: Any) -> Trace:
    """Return a line through the points whose coordinates are both known."""
    points = [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]
    kept = thinned(points)
    dash = _DASHES[place // COLORS % len(_DASHES)]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(kept) == 1 else "lines",
        "x": [a for a, _ in kept],
        "y": [b for _, b in kept],
        "name": label(name),
        "line": {"color": color(place), "width": 2, "dash": dash},
        **more,
    }


def band(x: Numbers, least: Numbers, most: Numbers, place: int = 0) -> list[Trace]:
    """Return an area between two lines, without legend entries and hover texts."""
    edge = {"width": 0, "color": color(place)}
    silent = {"hoverinfo": "skip", "mode": "lines"}
    low = line(x, least, "", place) | silent | {"line": edge}
    high = line(x, most, "", place) | silent | {"line": edge}
    return [low, high | {"fill": "tonexty", "fillcolor": f"{color(place)}/0.18"}]


def thinned(points: Sequence[Any], most: int = _MOST_POINTS) -> list[Any]:
    """Return at most so many of the points, evenly spaced, with the first and the last.

    Example:
        >>> thinned(range(7), most=4)
        [0, 2, 4, 6]
    """
    if len(points) <= most:
        return list(points)
    return [points[round(k * (len(points) - 1) / (most - 1))] for k in range(most)]


PERCENT: Mapping[str, Any] = {"tickformat": ".0%"}


def metric_axis(metric_name: str) -> Mapping[str, Any]:
    """Return how the axis of a metric is labelled."""
    return PERCENT if is_share(metric_name) else {}
