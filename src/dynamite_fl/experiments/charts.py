"""What an experiment's figure shows, as numbers."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dynamite_fl.compare.summary import spread_of
from dynamite_fl.experiments.experiment import ChartSpec, Experiment
from dynamite_fl.experiments.measures import COLUMNS, MEASURES, column, known
from dynamite_fl.experiments.outcome import Outcome
from dynamite_fl.training.history import History

THEOREM = "theorem-2"  # the name of Theorem 2 among the contenders
_PLACE_IN_PLAN = {"local_steps": 0, "batch_mean": 1}


@dataclass(frozen=True)
class Series:
    """One contender in one chart: the points of a curve, or a single bar.

    Attributes:
        name: The contender.
        x: The horizontal places of the points; empty for a bar.
        mean: The means over seeds.
        spread: The standard deviations over seeds; 0 for a single seed.
    """

    name: str
    x: Sequence[float]
    mean: Sequence[float]
    spread: Sequence[float]


@dataclass(frozen=True)
class Chart:
    """One pair of axes.

    Attributes:
        title: The text above it.
        x_label: The text below it.
        y_label: The text beside it.
        series: The curves, or the bars if the first has no ``x``.
        percent: Whether the numbers are shares, which are shown as per cent.
        mark: The place of a vertical line; None for no line.
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
        return not self.series[0].x


def charts_of(experiment: Experiment, scale: str, outcome: Outcome) -> list[list[Chart]]:
    """Return the figure's charts, with a row for each of ``experiment.charts``.

    Panels and contenders without runs are left out. Rows of one chart each share a row.
    """
    at_scale = experiment.panels_at(scale)
    rows = []
    for spec in experiment.charts:
        panels = [panel for panel in spec.panels or at_scale if panel in at_scale]
        charts = [_chart(experiment, spec, panel, outcome) for panel in panels]
        rows.append([chart for chart in charts if chart.series])
    rows = [row for row in rows if row]
    if all(len(row) == 1 for row in rows):
        return [[row[0] for row in rows]] if rows else []
    return rows


def _chart(experiment: Experiment, spec: ChartSpec, panel: str, outcome: Outcome) -> Chart:
    """Return the chart of a panel; its series are empty if nothing of it was run."""
    title = experiment.panels[panel].title
    if spec.kind == "theorem":
        series = _theorem(spec, panel, outcome)
        return Chart(f"{title}, Theorem 2", "rounds in all", COLUMNS[spec.y], series)
    if spec.kind == "bars":
        measure = MEASURES[spec.y]
        values = {name: outcome.values(panel, name, spec.y) for name in experiment.contenders}
        bars = [_series(name, (), [list(of.values())]) for name, of in values.items() if of]
        return Chart(title, measure.title, "", bars, measure.is_percent)
    names = [name for name in experiment.contenders if outcome.of(panel, name)]
    curves = [_curve(name, spec, list(outcome.of(panel, name).values())) for name in names]
    curves = [curve for curve in curves if curve.x]
    mark = outcome.bursts.get(panel) if spec.x == "round" else None
    return Chart(title, spec.x, COLUMNS[spec.y], curves, spec.y == "accuracy", mark)


def _curve(name: str, spec: ChartSpec, histories: Sequence[History]) -> Series:
    """Return means over seeds at the rounds that all seeds have, and at the ends of the seeds."""
    x = [dict(column(history, spec.x)) for history in histories]
    y = [known(history, spec.y) for history in histories]
    common = sorted(set.intersection(*(set(values) for values in y)))
    points = [[rounds] * len(histories) for rounds in common]  # a round of each seed
    if all(y) and {max(values) for values in y} != set(common[-1:]):
        points.append([max(values) for values in y])
    places = [
        statistics.fmean(of_seed[k] for of_seed, k in zip(x, point, strict=True))
        for point in points
    ]
    columns = [[of_seed[k] for of_seed, k in zip(y, point, strict=True)] for point in points]
    return _series(name, places, columns)


def _theorem(spec: ChartSpec, panel: str, outcome: Outcome) -> list[Series]:
    plans = list(outcome.plans.get(panel, {}).values())
    if not plans:
        return []
    rounds, place = sorted(plans[0]), _PLACE_IN_PLAN[spec.y]
    return [_series(THEOREM, rounds, [[plan[k][place] for plan in plans] for k in rounds])]


def _series(name: str, x: Sequence[float], columns: Sequence[Sequence[float]]) -> Series:
    """Return means and standard deviations of columns, each with a number for each seed."""
    spreads = [spread_of(numbers) for numbers in columns]
    means = [spread.mean for spread in spreads]
    return Series(name, x, means, [spread.deviation or 0.0 for spread in spreads])
