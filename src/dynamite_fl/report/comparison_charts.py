"""The charts of several trainings side by side."""

import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamite_fl.report.chart import PERCENT, Chart, band, color, label, line
from dynamite_fl.report.run_charts import AXES, TICKS
from dynamite_fl.report.shown import ShownComparison, ShownHindsight, ShownRun
from dynamite_fl.report.summary import Row, Target

_POINTS = 150  # of a curve over seeds

Groups = Mapping[str, Sequence[ShownRun]]


def groups_of(comparison: ShownComparison) -> dict[str, list[ShownRun]]:
    """Runs by contender, in the order of the rows; those of hindsight are not among them."""
    fixed = set() if comparison.hindsight is None else _fixed(comparison)
    names = [row.contender for row in comparison.rows]
    names += [run.title for run in comparison.runs if run.title not in fixed]
    return {
        name: [run for run in comparison.runs if run.title == name and run.history.lines]
        for name in dict.fromkeys(names)
    }


def _fixed(comparison: ShownComparison) -> set[str]:
    shown = {row.contender for row in comparison.rows}
    return {run.title for run in comparison.runs if run.controller == "fixed"} - shown


def curves(groups: Groups, key: str, title: str, layout: Mapping[str, Any]) -> list[Chart]:
    """A value against rounds, seconds and cost: means over seeds, and from least to most."""
    charts = []
    for axis, words in AXES.items():
        traces = []
        for place, (name, runs) in enumerate(groups.items()):
            traces += _curve(runs, axis, key, name, place)
        charts.append(Chart(f"{title} by {words}", traces, words, layout))
    return charts


def _curve(
    runs: Sequence[ShownRun], axis: str, key: str, name: str, place: int
) -> list[dict[str, Any]]:
    """A line over several seeds as far as all of them go, in a band if they differ."""
    columns = [_points(run, axis, key) for run in runs]
    columns = [each for each in columns if each]
    if not columns:
        return []
    if len(columns) == 1:
        return [line([x for x, _ in columns[0]], [y for _, y in columns[0]], name, place)]
    first, last = max(each[0][0] for each in columns), min(each[-1][0] for each in columns)
    grid = [first + (last - first) * k / (_POINTS - 1) for k in range(_POINTS)]
    values = [[_at(each, x) for each in columns] for x in grid]
    mean = line(grid, [statistics.fmean(each) for each in values], name, place)
    return [
        *band(grid, [min(each) for each in values], [max(each) for each in values], place),
        mean,
    ]


def _points(run: ShownRun, axis: str, key: str) -> list[tuple[float, float]]:
    lines = run.history.lines
    return [(each[axis], each[key]) for each in lines if each.get(key) is not None]


def _at(points: Sequence[tuple[float, float]], x: float) -> float:
    """The value at a place, straight between its neighbours.

    Example:
        >>> _at([(0, 1.0), (2, 3.0)], 1), _at([(0, 1.0), (2, 3.0)], 5)
        (2.0, 3.0)
    """
    after = bisect_right(points, x, key=lambda point: point[0])
    if after == 0:
        return points[0][1]
    if after == len(points):
        return points[-1][1]
    (x0, y0), (x1, y1) = points[after - 1], points[after]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def end_charts(
    rows: Sequence[Row], target: Target, hindsight: ShownHindsight | None
) -> list[Chart]:
    """Accuracy at the end, and what it took to reach the target."""
    shown = list(rows)
    if hindsight is not None and hindsight.best not in shown:
        shown.append(hindsight.best)
    height = _height(len(shown))
    charts = [_final_chart(shown, len(rows), height)]
    for key in ("seconds", "cost"):
        bars = [_to_target(row, key, target) for row in rows]
        title = f"{key.capitalize()} to {target.accuracy:.1%}"
        charts.append(_bar_chart(title, key, rows, bars, {"rangemode": "tozero"}, height))
    return charts


def _height(bars: int) -> int:
    return 90 + 42 * bars


def _final_chart(rows: Sequence[Row], contenders: int, height: int) -> Chart:
    """A dot a seed; what is no contender but known in hindsight is grey."""
    traces = []
    for place, row in enumerate(rows):
        seeds = [each.history.final_accuracy for each in row.results]
        shade = color(place) if place < contenders else "--soft"
        traces.append(_dots(seeds, place, shade))
    layout = {"xaxis": {**PERCENT, "showgrid": True}, "yaxis": _names(rows), "hovermode": "closest"}
    return Chart("Accuracy at the end, each seed a dot", traces, "accuracy", layout, height=height)


def _names(rows: Sequence[Row]) -> dict[str, Any]:
    """An axis of rows by their places, since names that are cut short may be the same."""
    return {
        "tickvals": list(range(len(rows))),
        "ticktext": [label(row.contender) for row in rows],
        "range": [len(rows) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
    }


def _dots(values: Sequence[float], place: int, shade: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(values),
        "y": [place] * len(values),
        "marker": {"color": shade, "size": 11, "opacity": 0.75},
        "hovertemplate": "%{x:.2%}<extra></extra>",
    }


@dataclass(frozen=True)
class _Bar:
    """A mean, the values that it is of, and what to write beside them."""

    mean: float
    values: Sequence[float]
    words: str


def _to_target(row: Row, key: str, target: Target) -> _Bar:
    lines = [each.history.first_reaching(target.accuracy) for each in row.results]
    values = [found[key] for found in lines if found is not None]
    if not values:
        return _Bar(0.0, (), "not reached")
    mean = statistics.fmean(values)
    some = f", {len(values)} of {len(lines)}" if len(values) < len(lines) else ""
    return _Bar(mean, values, f"{mean:,.{0 if mean >= 100 else 1}f}{some}")


def hindsight_charts(rows: Sequence[Row], hindsight: ShownHindsight) -> list[Chart]:
    """The share of the way to the best fixed setting, and all settings that were tried."""
    shares = [hindsight.covered.get(row.contender) for row in rows]
    bars = [
        _Bar(share or 0.0, (), "cannot be said" if share is None else f"{share:.0%}")
        for share in shares
    ]
    title = "Of the way from FedAvg to the best fixed setting"
    height = max(300, _height(len(rows)))
    return [
        _bar_chart(title, "share", rows, bars, PERCENT, height),
        _tried(hindsight, height),
    ]


def _bar_chart(
    title: str,
    x: str,
    rows: Sequence[Row],
    bars: Sequence[_Bar],
    axis: Mapping[str, Any],
    height: int,
) -> Chart:
    """A bar for each row, its values as dots on it, its words behind the last of them."""
    ends = [max([0.0, bar.mean, *bar.values]) for bar in bars]
    starts = [min(0.0, bar.mean) for bar in bars]
    traces = []
    for place, (bar, end) in enumerate(zip(bars, ends, strict=True)):
        silent = {"hoverinfo": "skip", "type": "scatter"}
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": [bar.mean],
                "y": [place],
                "width": 0.55,
                "marker": {"color": f"{color(place)}/0.55"},
                "hovertemplate": f"{bar.words}<extra></extra>",
            }
        )
        dots = {"color": color(place), "size": 8}
        at = [place] * len(bar.values)
        traces.append({**silent, "mode": "markers", "x": bar.values, "y": at, "marker": dots})
        words = {"mode": "text", "text": [f"  {bar.words}"], "textposition": "middle right"}
        traces.append({**silent, **words, "x": [end], "y": [place], "textfont": {"color": "--ink"}})
    reach = max(ends) - min(starts) or 1.0
    room = [min(starts) - (0.05 * reach if min(starts) < 0 else 0), max(ends) + 0.7 * reach]
    layout = {
        "xaxis": {"showgrid": True, **axis, "range": room, "nticks": 5},
        "yaxis": _names(rows),
        "hovermode": "closest",
    }
    return Chart(title, traces, x, layout, height=height)


def _tried(hindsight: ShownHindsight, height: int) -> Chart:
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [steps for steps, _, _ in hindsight.tried],
        "y": [size for _, size, _ in hindsight.tried],
        "marker": {
            "size": 16,
            "color": [accuracy for _, _, accuracy in hindsight.tried],
            "colorscale": "sequential",
            "colorbar": {"tickformat": ".0%"},
            "line": {"color": "--soft", "width": 1},
        },
        "text": [f"{steps} x {size}: {accuracy:.1%}" for steps, size, accuracy in hindsight.tried],
        "hovertemplate": "%{text}<extra></extra>",
    }
    layout = {
        "xaxis": {"type": "log", "tickvals": TICKS, "ticktext": TICKS, "showgrid": True},
        "yaxis": {
            "type": "log",
            "tickvals": TICKS,
            "ticktext": TICKS,
            "title": {"text": "batch size"},
        },
        "hovermode": "closest",
    }
    title = "Accuracy of fixed settings on the first seed"
    return Chart(title, [trace], "local steps", layout, height=height)
