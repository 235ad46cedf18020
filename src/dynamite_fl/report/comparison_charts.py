"""The charts of several trainings side by side: curves over seeds, targets and hindsight."""

import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamite_fl._format import (
    is_share,
    metric_label,
    metric_title,
    metric_value,
    number,
    percent,
)
from dynamite_fl.compare.hindsight import Hindsight
from dynamite_fl.compare.names import rates_in
from dynamite_fl.compare.summary import ContenderSummary, Target
from dynamite_fl.compare.tuning import Tuned, is_trial, tuned_methods
from dynamite_fl.report.chart import PERCENT, Chart, band, color, label, line, metric_axis
from dynamite_fl.report.contents import ReportedComparison, ReportedRun
from dynamite_fl.report.run_charts import AXES, TICKS

_CURVE_POINTS = 150

Groups = Mapping[str, Sequence[ReportedRun]]


def groups_of(comparison: ReportedComparison) -> dict[str, list[ReportedRun]]:
    """Return runs by contender, the best first, without trials of searches."""
    trials = _trials(comparison)
    names = [contender.contender for contender in comparison.contenders]
    names += [run.title for run in comparison.runs if run.title not in trials]
    return {
        name: [run for run in comparison.runs if run.title == name and run.history]
        for name in dict.fromkeys(names)
    }


def _trials(comparison: ReportedComparison) -> set[str]:
    """Return the titles of fixed settings and of methods at other rates than their best."""
    shown = {contender.contender for contender in comparison.contenders}
    methods = tuned_methods(comparison.runs)
    trials = {run.title for run in comparison.runs if is_trial(run, methods)}
    if comparison.hindsight is not None:
        trials |= {run.title for run in comparison.runs if run.controller == "fixed"}
    return trials - shown


def curves(groups: Groups, field: str, title: str, layout: Mapping[str, Any]) -> list[Chart]:
    """Return charts of a field or metric by round, seconds and cost, with bands over seeds."""
    charts = []
    for axis in AXES:
        traces = []
        for place, (name, runs) in enumerate(groups.items()):
            traces += _curve(runs, axis, field, name, place)
        charts.append(Chart(f"{title} by {axis}", traces, axis, layout))
    return charts


def _curve(
    runs: Sequence[ReportedRun], axis: str, field: str, name: str, place: int
) -> list[dict[str, Any]]:
    """Return the mean over seeds as far as all of them go, with a band from least to most."""
    seeds = [points for run in runs if (points := _points(run, axis, field))]
    if not seeds:
        return []
    if len(seeds) == 1:
        return [line([x for x, _ in seeds[0]], [y for _, y in seeds[0]], name, place)]
    first, last = max(points[0][0] for points in seeds), min(points[-1][0] for points in seeds)
    grid = [first + (last - first) * k / (_CURVE_POINTS - 1) for k in range(_CURVE_POINTS)]
    columns = [[_interpolate(points, x) for points in seeds] for x in grid]
    mean = line(grid, [statistics.fmean(column) for column in columns], name, place)
    least, most = [min(column) for column in columns], [max(column) for column in columns]
    return [*band(grid, least, most, place), mean]


def _points(run: ReportedRun, axis: str, field: str) -> list[tuple[float, float]]:
    return [
        (getattr(record, axis), value)
        for record in run.history
        if (value := record.value(field)) is not None
    ]


def _interpolate(points: Sequence[tuple[float, float]], x: float) -> float:
    """Interpolate linearly between points; beyond them, the value of the nearest holds.

    Example:
        >>> _interpolate([(0, 1.0), (2, 3.0)], 1), _interpolate([(0, 1.0), (2, 3.0)], 5)
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
    rows: Sequence[ContenderSummary], target: Target, hindsight: Hindsight | None
) -> list[Chart]:
    """Return charts of the leading metric at the end, and of seconds and cost to the target."""
    shown = list(rows)
    if hindsight is not None and hindsight.best not in shown:
        shown.append(hindsight.best)
    height = _height(len(shown))
    charts = [_final_chart(shown, len(rows), target.metric.name, height)]
    for key in ("seconds", "cost"):
        bars = [_bar_to_target(row, key) for row in rows]
        title = f"{key.capitalize()} to {target}"
        charts.append(_bar_chart(title, key, rows, bars, {"rangemode": "tozero"}, height))
    return charts


def _height(bars: int) -> int:
    return 90 + 42 * bars


def _final_chart(
    rows: Sequence[ContenderSummary], contenders: int, metric: str, height: int
) -> Chart:
    """Return a chart with a dot for each seed; the best setting in hindsight is grey."""
    traces = []
    for place, row in enumerate(rows):
        seeds = [result.history.final for result in row.results]
        shade = color(place) if place < contenders else "--soft"
        traces.append(_dots(seeds, place, shade, ".2%" if is_share(metric) else ".4g"))
    axis = {**metric_axis(metric), "showgrid": True}
    layout = {"xaxis": axis, "yaxis": _names(rows), "hovermode": "closest"}
    name = metric_label(metric)
    return Chart(f"Final {name} of each seed", traces, label(name), layout, height=height)


def _names(rows: Sequence[ContenderSummary]) -> dict[str, Any]:
    """Return an axis with a place for each row, because shortened names may be the same."""
    return {
        "tickvals": list(range(len(rows))),
        "ticktext": [label(row.contender) for row in rows],
        "range": [len(rows) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
    }


def _dots(values: Sequence[float], place: int, shade: str, form: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(values),
        "y": [place] * len(values),
        "marker": {"color": shade, "size": 11, "opacity": 0.75},
        "hovertemplate": f"%{{x:{form}}}<extra></extra>",
    }


@dataclass(frozen=True)
class _Bar:
    """A bar with dots.

    Attributes:
        mean: Length of the bar.
        values: The values behind the mean, drawn as dots.
        text: Text beside the bar.
    """

    mean: float
    values: Sequence[float]
    text: str


def _bar_to_target(row: ContenderSummary, field: str) -> _Bar:
    values = [getattr(record, field) for record in row.reached]
    if not values:
        return _Bar(0.0, (), "not reached")
    mean = statistics.fmean(values)
    seeds = "" if row.always_reached else f", {len(values)} of {len(row.results)}"
    return _Bar(mean, values, number(mean) + seeds)


def hindsight_charts(rows: Sequence[ContenderSummary], hindsight: Hindsight) -> list[Chart]:
    """Return charts of the share of the gap that contenders cover, and of the settings tried."""
    shares = [hindsight.covered.get(row.contender) for row in rows]
    bars = [
        _Bar(share or 0.0, (), "unknown" if share is None else percent(share, 0))
        for share in shares
    ]
    title = "Share of the way from FedAvg to the best fixed setting"
    height = max(300, _height(len(rows)))
    return [
        _bar_chart(title, "share", rows, bars, PERCENT, height),
        _settings_chart(hindsight, height),
    ]


def rates_chart(tuned: Sequence[Tuned], metric: str) -> Chart:
    """Return a chart of methods at all rates that were tried, on the first seed.

    A method with a rate at the server is shown at the best of these for each rate of local steps.
    """
    traces = []
    for place, method in enumerate(tuned):
        best: dict[float, float] = {}
        for title, value in method.tried.items():  # the best first
            best.setdefault(float(rates_in(title).partition("x")[0]), value)
        rates = sorted(best)
        markers = {"mode": "lines+markers"}
        traces.append(line(rates, [best[r] for r in rates], method.method, place, **markers))
    layout = {"xaxis": {"type": "log", "showgrid": True}, "yaxis": metric_axis(metric)}
    legend = [(method.method, color(place)) for place, method in enumerate(tuned)]
    title = f"{metric_title(metric)} at the rates that were tried, on the first seed"
    return Chart(title, traces, "learning rate", layout, legend=legend, height=300)


def _bar_chart(
    title: str,
    x: str,
    rows: Sequence[ContenderSummary],
    bars: Sequence[_Bar],
    axis: Mapping[str, Any],
    height: int,
) -> Chart:
    """Return a chart with a bar for each row, dots for its values and its text at the end."""
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
                "hovertemplate": f"{bar.text}<extra></extra>",
            }
        )
        dots = {"color": color(place), "size": 8}
        at = [place] * len(bar.values)
        traces.append({**silent, "mode": "markers", "x": bar.values, "y": at, "marker": dots})
        text = {"mode": "text", "text": [f"  {bar.text}"], "textposition": "middle right"}
        traces.append({**silent, **text, "x": [end], "y": [place], "textfont": {"color": "--ink"}})
    reach = max(ends) - min(starts) or 1.0
    room = [min(starts) - (0.05 * reach if min(starts) < 0 else 0), max(ends) + 0.7 * reach]
    layout = {
        "xaxis": {"showgrid": True, **axis, "range": room, "nticks": 5},
        "yaxis": _names(rows),
        "hovermode": "closest",
    }
    return Chart(title, traces, x, layout, height=height)


def _settings_chart(hindsight: Hindsight, height: int) -> Chart:
    metric = hindsight.best.leading_metric
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [setting.local_steps for setting in hindsight.tried],
        "y": [setting.batch_size for setting in hindsight.tried],
        "marker": {
            "size": 16,
            "color": list(hindsight.tried.values()),
            "colorscale": "sequential",
            "reversescale": not metric.higher_is_better,  # the best have one colour
            "colorbar": dict(metric_axis(metric.name)),
            "line": {"color": "--soft", "width": 1},
        },
        "text": [
            f"{setting.name.removeprefix('fixed-')}: {metric_value(metric.name, value)}"
            for setting, value in hindsight.tried.items()
        ],
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
    title = f"{metric_title(metric.name)} of fixed settings on the first seed"
    return Chart(title, [trace], "local steps", layout, height=height)
