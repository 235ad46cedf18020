"""The charts of one training."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from dynamite_fl._format import metric_label, metric_title
from dynamite_fl.report.chart import PERCENT, Chart, band, label, line, metric_axis, thinned
from dynamite_fl.report.contents import ReportedRun
from dynamite_fl.report.device_figures import batch_tiles
from dynamite_fl.training.round_record import RoundRecord

TICKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000, 200_000]
RATE_TICKS = [digit * 10.0**power for power in range(-7, 3) for digit in (1, 3)]
AXES = ("round", "seconds", "cost")

_ESTIMATES = {
    "loss": "loss on the last batches, F",
    "quadratic_bound": "quadratic bound, ρ",  # noqa: RUF001  it is a rho
    "lipschitz": "Lipschitz constant",
    "smoothness": "smoothness, β",
    "pl_constant": "PL constant, c",
    "divergence": "divergence of devices, δ",
    "gradient_variance": "mean gradient variance, M",
    "drift": "drift caused by arrivals, ψ",
    "gain": "gain of the first local step",
    "stable_rate": "largest stable learning rate",
    "persistence": "share of that gain in late local steps",
}


def leading_charts(run: ReportedRun) -> list[Chart]:
    """Return charts of the leading metric by round, seconds and cost."""
    return [_metric_chart(run, run.history.leading_metric.name, axis) for axis in AXES]


def _metric_chart(run: ReportedRun, name: str, axis: str = "round", place: int = 0) -> Chart:
    values = [record.value(name) for record in run.history]
    trace = line([record.value(axis) for record in run.history], values, metric_label(name), place)
    layout = {"yaxis": metric_axis(name)}
    return Chart(f"{metric_title(name)} by {axis}", [trace], axis, layout)


def quality_charts(run: ReportedRun) -> list[Chart]:
    """Return charts of the other metrics, the loss, and the quality for clients and classes."""
    leading = run.history.leading_metric.name
    others = [name for name in run.history.metric_names if name != leading]
    charts = [_metric_chart(run, name, place=place) for place, name in enumerate(others, start=3)]
    charts += _loss_charts(run)
    if any(record.client_metrics for record in run.history):
        charts.append(_client_chart(run))
    evaluated = [record for record in run.history if record.class_accuracy]
    if evaluated:
        charts.append(_class_chart(evaluated))
    return charts


def _loss_charts(run: ReportedRun) -> list[Chart]:
    """Return a chart of the loss; none if the loss leads and there is only one."""
    columns = run.history.columns()
    rounds = columns["round"]
    traces = [line(rounds, columns["loss"], "test data", 1)]
    if "stream_loss" in columns:
        traces.append(line(rounds, columns["stream_loss"], "all data that has arrived", 2))
    elif run.history.leading_metric.name == "loss":
        return []
    return [Chart("Loss", traces, legend=_legend(traces))]


def _client_chart(run: ReportedRun) -> Chart:
    """Return a chart of the leading metric on the clients' own test data."""
    metric = run.history.leading_metric
    judged = [(record.round, known) for record in run.history if (known := _known(record))]
    rounds = [number for number, _ in judged]
    best = [metric.best(values) for _, values in judged]
    worst = [metric.worst(values) for _, values in judged]
    mean = [statistics.fmean(values) for _, values in judged]
    lines = [line(rounds, mean, "mean of clients", 0), line(rounds, worst, "worst client", 1)]
    return Chart(
        f"{metric_title(metric.name)} of clients",
        [*band(rounds, worst, best), *lines],
        layout={"yaxis": metric_axis(metric.name)},
        legend=_legend(lines),
        note="Each client is judged on its own test data. The band is from the worst to the best.",
    )


def _known(record: RoundRecord) -> list[float]:
    return [value for value in record.client_metrics or () if value is not None]


def _class_chart(evaluated: Sequence[RoundRecord]) -> Chart:
    records = thinned(evaluated, 120)
    accuracies = [record.class_accuracy or {} for record in records]
    classes = list(dict.fromkeys(name for accuracy in accuracies for name in accuracy))
    values = [[accuracy.get(name) for accuracy in accuracies] for name in classes]
    trace = {
        "type": "heatmap",
        "x": [record.round for record in records],
        "y": [label(name) for name in classes],
        "z": values,
        "zmin": 0,
        "zmax": 1,
        "colorscale": "sequential",
        "colorbar": {"tickformat": ".0%"},
        "hovertemplate": "class %{y}, round %{x}: %{z:.1%}<extra></extra>",
    }
    layout = {"yaxis": {"type": "category", "autorange": "reversed", "title": {"text": "class"}}}
    height = max(260, min(520, 110 + 16 * len(classes)))
    return Chart("Accuracy of each class", [trace], layout=layout, height=height)


def decision_charts(run: ReportedRun) -> list[Chart]:
    """Return charts of local steps, batch sizes and, if it changes, the learning rate."""
    columns = run.history.columns()
    rounds = columns["round"]
    steps = line(rounds, columns["local_steps"], "local steps", 3)
    steps["line"]["shape"] = "hv"
    mean = line(rounds, columns["batch_mean"], "mean", 4)
    traces, note = [mean], ""
    if any(least is not None for least in columns["batch_least"]):
        traces = [*band(rounds, columns["batch_least"], columns["batch_most"], 4), mean]
        note = "The line is the mean; the band reaches from the smallest to the largest batch."
    charts = [
        Chart("Local steps", [steps], layout={"yaxis": {"rangemode": "tozero"}}),
        Chart("Batch size", traces, layout={"yaxis": {"rangemode": "tozero"}}, note=note),
    ]
    if "learning_rate" in columns:
        trace = line(rounds, columns["learning_rate"], "learning rate", 2)
        trace["line"]["shape"] = "hv"
        axis = {"type": "log", "tickvals": RATE_TICKS}
        charts.append(Chart("Learning rate", [trace], layout={"yaxis": axis}))
    return charts


def limit_charts(run: ReportedRun) -> list[Chart]:
    """Return charts of what was left of the limits, and of the duration of rounds."""
    columns, limits = run.history.columns(), run.limits
    rounds = [0, *columns["round"]]
    traces = []
    if limits is not None:
        for place, (key, most, name) in enumerate(
            (
                ("seconds", limits.deadline, "deadline"),
                ("cost", limits.budget, "budget"),
                ("epsilon", limits.epsilon or math.inf, "epsilon"),
            )
        ):
            if math.isfinite(most) and key in columns:
                left = [1.0, *(1 - (spent or 0.0) / most for spent in columns[key])]
                traces.append(line(rounds, left, name, place))
    charts = []
    if traces:
        layout = {"yaxis": {**PERCENT, "range": [-0.02, 1.02]}}
        legend = _legend(traces)
        charts.append(Chart("Limits left", traces, layout=layout, legend=legend))
    duration = line(columns["round"], columns["round_seconds"], "seconds", 1)
    layout = {"yaxis": {"rangemode": "tozero"}}
    return [*charts, Chart("Seconds of each round", [duration], layout=layout)]


def batch_heat_map(run: ReportedRun) -> Chart | None:
    """Return a map of batch sizes by device and round, on a logarithmic colour scale."""
    tiles = batch_tiles(run.history)
    if not tiles.groups:
        return None
    names, note = _row_names(run, tiles.groups)
    logs = [[None if not size else math.log10(size) for size in row] for row in tiles.sizes]
    top = max((size for row in tiles.sizes for size in row if size), default=1.0)
    ticks = [tick for tick in TICKS if tick <= top] or [1]
    trace = {
        "type": "heatmap",
        "x": tiles.rounds,
        "y": list(range(len(names))),
        "z": logs,
        "zmin": 0,
        "customdata": [
            [[name, size] for size in row] for name, row in zip(names, tiles.sizes, strict=True)
        ],
        "colorscale": "sequential",
        "colorbar": {"tickvals": [math.log10(tick) for tick in ticks], "ticktext": ticks},
        "hovertemplate": "%{customdata[0]}, round %{x}: %{customdata[1]}<extra></extra>",
    }
    axis = {"tickvals": list(range(len(names))), "ticktext": names, "autorange": "reversed"}
    return Chart(
        "Batch size of each device",
        [trace],
        layout={"yaxis": axis},
        note=note,
        height=90 + max(130, min(22 * len(names), 14 * len(names) + 100)),
        wide=True,
    )


def _row_names(run: ReportedRun, groups: Sequence[Sequence[int]]) -> tuple[list[str], str]:
    """Return the names of rows, and a note if each row is of several devices."""
    size = len(groups[0])
    if size == 1:
        return [label(run.device(group[0])) for group in groups], ""
    ends = [size * row + len(group) for row, group in enumerate(groups)]
    names = [f"{size * row + 1:,} to {end:,}" for row, end in enumerate(ends)]
    return names, f"{ends[-1]:,} devices, sorted by mean batch size, {size} in each row."


def estimate_charts(run: ReportedRun) -> list[Chart]:
    """Return charts of the controller's estimates, and of the terms of its bound."""
    charts = [_bound_chart(run)] if run.bound_terms else []
    rounds = [record.round for record in run.history]
    names = dict.fromkeys(name for record in run.history for name in record.estimates)
    for place, name in enumerate(names):
        if name == "drift" and not run.streams:
            continue
        values = [record.estimates.get(name) for record in run.history]
        words = _ESTIMATES.get(name, name.replace("_", " "))
        trace = line(rounds, values, words, place)
        charts.append(Chart(words[:1].upper() + words[1:], [trace], height=190))
    return charts


def _bound_chart(run: ReportedRun) -> Chart:
    rounds = [record.round for record in run.history]
    traces = [
        line(rounds, [value or None for value in values], name, place)
        for place, (name, values) in enumerate(run.bound_terms.items())
    ]
    return Chart(
        "Terms of the bound on the loss after each round",
        traces,
        layout={"yaxis": {"type": "log", "exponentformat": "power", "dtick": 1}},
        note="Lemma 1 of the paper, with the estimates from which the round was planned.",
        legend=_legend(traces),
        wide=True,
    )


def stream_charts(run: ReportedRun) -> list[Chart]:
    """Return charts of the samples that have arrived and that are stored."""
    latest: dict[int, int] = {}
    rounds: list[float | None] = []
    arrived: list[float | None] = []
    stored: list[float | None] = []
    room = math.inf if run.buffer_size is None else run.buffer_size
    for record in run.history:
        if record.clients is None or record.arrived is None:
            continue
        pairs = zip(record.clients, record.arrived, strict=True)
        latest |= {client: count for client, count in pairs if count is not None}
        rounds.append(record.round)
        arrived.append(sum(latest.values()))
        stored.append(sum(min(count, room) for count in latest.values()))
    if not rounds:
        return []
    traces = [line(rounds, arrived, "arrived", 0), line(rounds, stored, "stored", 2)]
    layout = {"yaxis": {"rangemode": "tozero"}}
    charts = [Chart("Samples on devices", traces, layout=layout, legend=_legend(traces))]
    if math.isfinite(room):
        capacity = room * len(latest)
        used = [(count or 0) / capacity if capacity else None for count in stored]
        share = {"yaxis": {**PERCENT, "range": [0, 1.02]}}
        charts.append(Chart("Buffers in use", [line(rounds, used, "in use", 2)], layout=share))
    return charts


def _legend(traces: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return names and colours, if there are several lines."""
    if len(traces) < 2:
        return []
    return [(trace["name"], trace["line"]["color"]) for trace in traces]
