"""The charts of one training."""

import math
from collections.abc import Sequence
from typing import Any

from dynamite_fl.report.chart import PERCENT, Chart, Numbers, band, label, line, thinned
from dynamite_fl.report.devices import batch_tiles
from dynamite_fl.report.shown import ShownRun

AXES = {"round": "round", "seconds": "seconds", "cost": "cost"}

_ESTIMATES = {
    "loss": "loss of the last batches, F",
    "quadratic_bound": "quadratic bound, ρ",  # noqa: RUF001  it is a rho
    "lipschitz": "Lipschitz constant",
    "smoothness": "smoothness, β",
    "pl_constant": "slope of the loss, c",
    "divergence": "divergence of devices, δ",
    "gradient_variance": "gradient variance, mean M",
    "drift": "drift by arrivals, ψ",
    "gain": "gain of a first local step",
    "persistence": "what late steps gain of that",
}


def accuracy_charts(run: ShownRun) -> list[Chart]:
    """Accuracy against rounds, seconds and cost."""
    columns = run.history.columns()
    charts = []
    for key, words in AXES.items():
        trace = line(columns[key], columns["accuracy"], "accuracy")
        layout = {"yaxis": PERCENT}
        charts.append(Chart(f"Accuracy by {words}", [trace], words, layout))
    return charts


def loss_charts(run: ShownRun) -> list[Chart]:
    """The loss, on the test data and on what has arrived; accuracy of each class."""
    columns = run.history.columns()
    rounds = columns["round"]
    traces = [line(rounds, columns["loss"], "test data", 1)]
    if "stream_loss" in columns:
        traces.append(line(rounds, columns["stream_loss"], "all that has arrived", 2))
    charts = [Chart("Loss", traces, legend=_legend(traces))]
    judged = [each for each in run.history.lines if each.get("class_accuracy")]
    if judged:
        charts.append(_classes(judged))
    return charts


def _classes(judged: Sequence[dict[str, Any]]) -> Chart:
    kept = thinned(judged, 120)
    classes = list(dict.fromkeys(name for each in kept for name in each["class_accuracy"]))
    values = [[each["class_accuracy"].get(name) for each in kept] for name in classes]
    trace = {
        "type": "heatmap",
        "x": [each["round"] for each in kept],
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


def decision_charts(run: ShownRun) -> list[Chart]:
    """Local steps and batch sizes."""
    columns = run.history.columns()
    rounds = columns["round"]
    steps = line(rounds, columns["local_steps"], "local steps", 3)
    steps["line"]["shape"] = "hv"
    mean = line(rounds, columns["batch_mean"], "mean", 4)
    traces, note = [mean], ""
    if "batch_least" in columns and "batch_most" in columns:
        traces = [*band(rounds, columns["batch_least"], columns["batch_most"], 4), mean]
        note = "The mean, and from the smallest to the largest batch of a device."
    return [
        Chart("Local steps", [steps], layout={"yaxis": {"rangemode": "tozero"}}),
        Chart("Batch size", traces, layout={"yaxis": {"rangemode": "tozero"}}, note=note),
    ]


def limit_charts(run: ShownRun) -> list[Chart]:
    """What was left of deadline and budget, and how long rounds took."""
    columns, limits = run.history.columns(), run.limits
    rounds = [0, *columns["round"]]
    traces = []
    if limits is not None:
        for place, (key, most, name) in enumerate(
            (("seconds", limits.deadline, "deadline"), ("cost", limits.budget, "budget"))
        ):
            if math.isfinite(most):
                left = [1.0, *(1 - spent / most for spent in columns[key])]
                traces.append(line(rounds, left, name, place))
    charts = []
    if traces:
        layout = {"yaxis": {**PERCENT, "range": [-0.02, 1.02]}}
        legend = _legend(traces)
        charts.append(Chart("Left of the limits", traces, layout=layout, legend=legend))
    if "round_seconds" in columns:
        taken = line(columns["round"], columns["round_seconds"], "seconds", 1)
        layout = {"yaxis": {"rangemode": "tozero"}}
        charts.append(Chart("Seconds of a round", [taken], layout=layout))
    return charts


def batch_heat_map(run: ShownRun) -> Chart | None:
    """Batch sizes of devices over rounds, on a logarithmic scale of colours."""
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
        "colorbar": {"tickvals": [math.log10(each) for each in ticks], "ticktext": ticks},
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


TICKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 50_000, 200_000]


def _row_names(run: ShownRun, groups: Sequence[Sequence[int]]) -> tuple[list[str], str]:
    """What to call rows, and a note if they are of several devices each."""
    each = len(groups[0])
    if each == 1:
        return [label(run.device(group[0])) for group in groups], ""
    ends = [each * row + len(group) for row, group in enumerate(groups)]
    names = [f"{each * row + 1:,} to {end:,}" for row, end in enumerate(ends)]
    return names, f"{ends[-1]:,} devices by their mean batch size, {each} to a row."


def estimate_charts(run: ShownRun) -> list[Chart]:
    """What the controller had learned after each round, and what its bound was made of."""
    charts = [_terms(run)] if run.terms else []
    rounds = [each["round"] for each in run.history.lines]
    keys = dict.fromkeys(key for each in run.history.lines for key in each["estimates"])
    for place, key in enumerate(keys):
        values = [each["estimates"].get(key) for each in run.history.lines]
        if not run.streams and key == "drift":
            continue
        words = _ESTIMATES.get(key, key.replace("_", " "))
        trace = line(rounds, values, words, place)
        charts.append(Chart(words[:1].upper() + words[1:], [trace], height=190))
    return charts


def _terms(run: ShownRun) -> Chart:
    rounds = [each["round"] for each in run.history.lines]
    traces = [
        line(rounds, [value or None for value in values], name, place)
        for place, (name, values) in enumerate(run.terms.items())
    ]
    return Chart(
        "The terms of the bound on the loss after the round",
        traces,
        layout={"yaxis": {"type": "log", "exponentformat": "power", "dtick": 1}},
        note="Lemma 1 of the paper, with the estimates that the round was planned by.",
        legend=_legend(traces),
        wide=True,
    )


def stream_charts(run: ShownRun) -> list[Chart]:
    """What has arrived, and what of it is stored."""
    latest: dict[int, float] = {}
    rounds: list[float | None] = []
    arrived: list[float | None] = []
    stored: list[float | None] = []
    for each in run.history.lines:
        if "arrived" not in each:
            continue
        pairs = zip(each["clients"], each["arrived"], strict=True)
        latest |= {int(client): value for client, value in pairs if value is not None}
        rounds.append(each["round"])
        arrived.append(sum(latest.values()))
        room = math.inf if run.stored is None else run.stored
        stored.append(sum(min(value, room) for value in latest.values()))
    if not rounds:
        return []
    traces = [line(rounds, arrived, "arrived", 0), line(rounds, stored, "stored", 2)]
    layout = {"yaxis": {"rangemode": "tozero"}}
    charts = [Chart("Samples on devices", traces, layout=layout, legend=_legend(traces))]
    if run.stored is not None and math.isfinite(run.stored):
        full = _full(run, rounds, stored, len(latest))
        charts.append(
            Chart("Buffers in use", [full], layout={"yaxis": {**PERCENT, "range": [0, 1.02]}})
        )
    return charts


def _full(run: ShownRun, rounds: Numbers, stored: Numbers, devices: int) -> dict[str, Any]:
    room = (run.stored or 1) * max(devices, 1)
    return line(rounds, [(value or 0) / room for value in stored], "in use", 2)


def _legend(traces: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Names and colours, if there are several to tell apart."""
    if len(traces) < 2:
        return []
    return [(trace["name"], trace["line"]["color"]) for trace in traces]
