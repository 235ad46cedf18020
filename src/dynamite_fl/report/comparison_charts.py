"""The charts of several trainings side by side."""

import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from dynamite_fl.report.chart import PERCENT, Chart, band, color, line
from dynamite_fl.report.run_charts import AXES
from dynamite_fl.report.shown import ShownComparison, ShownHindsight, ShownRun
from dynamite_fl.report.summary import Row, Spread, Target

_POINTS = 150  # of a curve over seeds

Groups = Mapping[str, Sequence[ShownRun]]


def groups_of(comparison: ShownComparison) -> dict[str, list[ShownRun]]:
    """Runs by contender, in the order of the rows; those of hindsight are not among them."""
    fixed = set() if comparison.hindsight is None else _fixed(comparison)
    names = [row.contender for row in comparison.rows]
    names += [run.contender for run in comparison.runs if run.contender not in fixed]
    return {
        name: [run for run in comparison.runs if run.contender == name and run.history.lines]
        for name in dict.fromkeys(names)
    }


def _fixed(comparison: ShownComparison) -> set[str]:
    shown = {row.contender for row in comparison.rows}
    return {run.contender for run in comparison.runs if run.controller == "fixed"} - shown


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


def final_chart(rows: Sequence[Row], hindsight: ShownHindsight | None) -> Chart:
    """Accuracy at the end, each seed a dot."""
    traces = []
    for place, row in enumerate(rows):
        seeds = [each.history.final_accuracy for each in row.results]
        traces.append(_dots(seeds, row.contender, place))
    shown = list(rows)
    if hindsight is not None and hindsight.best.contender not in [row.contender for row in rows]:
        seeds = [each.history.final_accuracy for each in hindsight.best.results]
        traces.append(_dots(seeds, f"{hindsight.best.contender} (hindsight)", len(rows)))
        shown.append(hindsight.best)
    layout = {"xaxis": {**PERCENT, "showgrid": True}, "yaxis": _NAMES, "hovermode": "closest"}
    height = 90 + 38 * len(shown)
    return Chart("Accuracy at the end, each seed a dot", traces, "accuracy", layout, height=height)


_NAMES = {"type": "category", "autorange": "reversed", "showgrid": False}


def _dots(values: Sequence[float], name: str, place: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(values),
        "y": [name] * len(values),
        "name": name,
        "marker": {"color": f"{color(place)}", "size": 11, "opacity": 0.75},
        "hovertemplate": "%{x:.2%}<extra></extra>",
    }


def target_charts(rows: Sequence[Row], target: Target) -> list[Chart]:
    """Seconds and cost to the target, of those whom all seeds led there."""
    charts = []
    for key, words in (("seconds_to_target", "Seconds"), ("cost_to_target", "Cost")):
        traces = [_bar(row, getattr(row, key), place) for place, row in enumerate(rows)]
        layout = {
            "xaxis": {"showgrid": True, "rangemode": "tozero"},
            "yaxis": _NAMES,
            "hovermode": "closest",
        }
        title = f"{words} to {target.accuracy:.1%}"
        height = 90 + 38 * len(rows)
        charts.append(Chart(title, traces, words.lower(), layout, height=height))
    return charts


def _bar(row: Row, spread: Spread | None, place: int) -> dict[str, Any]:
    """A bar as long as the mean of the seeds that got there, its ends the least and the most."""
    mean = 0.0 if spread is None else spread.mean
    words = "not reached" if spread is None else f"{mean:,.4g}"
    if spread is not None and row.reached < len(row.results):
        words += f" ({row.reached} of {len(row.results)} seeds)"
    ends = (
        None
        if spread is None or spread.deviation is None
        else {
            "type": "data",
            "symmetric": False,
            "array": [spread.most - mean],
            "arrayminus": [mean - spread.least],
            "color": "--soft",
            "thickness": 1.5,
        }
    )
    return {
        "type": "bar",
        "orientation": "h",
        "x": [mean],
        "y": [row.contender],
        "name": row.contender,
        "text": [words],
        "textposition": "inside" if spread is not None else "outside",
        "insidetextanchor": "start",
        "marker": {"color": color(place)},
        "hovertemplate": "%{text}<extra></extra>",
        **({} if ends is None else {"error_x": ends}),
    }


def hindsight_charts(rows: Sequence[Row], hindsight: ShownHindsight) -> list[Chart]:
    """The share of the way to the best fixed setting, and all settings that were tried."""
    known = [(row, hindsight.covered.get(row.contender)) for row in rows]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "x": [share or 0.0],
            "y": [row.contender],
            "name": row.contender,
            "text": ["cannot be said" if share is None else f"{share:.0%}"],
            "textposition": "auto",
            "marker": {"color": color(place)},
            "hovertemplate": "%{text}<extra></extra>",
        }
        for place, (row, share) in enumerate(known)
    ]
    layout = {"xaxis": {**PERCENT, "showgrid": True}, "yaxis": _NAMES, "hovermode": "closest"}
    way = Chart(
        "Of the way from FedAvg to the best fixed setting",
        traces,
        "share",
        layout,
        height=90 + 38 * len(known),
    )
    return [way, _tried(hindsight)]


def _tried(hindsight: ShownHindsight) -> Chart:
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
        "xaxis": {"type": "log", "dtick": "D2", "showgrid": True},
        "yaxis": {"type": "log", "dtick": "D2", "title": {"text": "batch size"}},
        "hovermode": "closest",
    }
    return Chart(
        "Accuracy of fixed settings on the first seed", [trace], "local steps", layout, height=300
    )
