"""Charts as data: traces and a layout for plotly.js, which draws them in the reader's browser.

A colour that begins with ``--`` is a variable of ``style.css``, so that charts follow the page into
dark mode and onto paper; ``--s1/0.2`` is one that can be seen through.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

Numbers = Sequence[float | None]
Trace = dict[str, Any]

COLORS = 8  # that style.css has, --s1 to --s8
_DASHES = ("solid", "dash", "dot", "dashdot")
_MOST_POINTS = 1000  # of a line; more than a screen can show


@dataclass(frozen=True, eq=False)
class Chart:
    """One picture of a report.

    Attributes:
        title: Above it.
        traces: What plotly draws.
        x: What is along the bottom.
        layout: Plotly's, beyond what all charts share.
        note: What to know to read it, below it.
        legend: Names with their colours, where there is more than one line.
        height: In pixels.
        wide: Whether it takes the whole width.
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
        """Whether there is nothing to draw, as where no model was judged yet."""
        return not any(len(trace["x"]) for trace in self.traces)

    def to_json(self) -> dict[str, Any]:
        """What the page's script takes."""
        axis = {"title": {"text": self.x}, **self.layout.get("xaxis", {})}
        layout = {**self.layout, "xaxis": axis, "height": self.height}
        return {"data": list(self.traces), "layout": layout}


def label(text: str, most: int = 28) -> str:
    """A name from a file as plotly shows it, which would take ``<b>`` in it for markup.

    Example:
        >>> label("<b>camera</b>"), label("a name that is long", most=8)
        ('&lt;b&gt;camera&lt;/b&gt;', 'a name …')
    """
    return escape(text if len(text) <= most else f"{text[: most - 1]}…", quote=False)


def color(place: int) -> str:
    """The colour of the so-and-so-many-th series.

    Example:
        >>> color(0), color(8)
        ('--s1', '--s1')
    """
    return f"--s{place % COLORS + 1}"


def line(x: Numbers, y: Numbers, name: str, place: int = 0, **more: Any) -> Trace:
    """A line through what is known."""
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
    """An area between two lines, without a word in the legend or under the pointer."""
    edge = {"width": 0, "color": color(place)}
    silent = {"hoverinfo": "skip", "mode": "lines"}
    low = line(x, least, "", place) | silent | {"line": edge}
    high = line(x, most, "", place) | silent | {"line": edge}
    return [low, high | {"fill": "tonexty", "fillcolor": f"{color(place)}/0.18"}]


def thinned(points: Sequence[Any], most: int = _MOST_POINTS) -> list[Any]:
    """At most so many of the points, evenly taken, the first and the last among them.

    Example:
        >>> thinned(range(7), most=4)
        [0, 2, 4, 6]
    """
    if len(points) <= most:
        return list(points)
    return [points[round(k * (len(points) - 1) / (most - 1))] for k in range(most)]


PERCENT: Mapping[str, Any] = {"tickformat": ".0%"}
