"""The report of one training."""

import math
from collections.abc import Sequence
from html import escape

from dynamite_fl._format import byte_size, metric_label, metric_value, number, percent
from dynamite_fl.report.contents import ReportedRun
from dynamite_fl.report.device_figures import DeviceFigures, device_figures
from dynamite_fl.report.page import Card, Page
from dynamite_fl.report.run_charts import (
    batch_heat_map,
    decision_charts,
    estimate_charts,
    leading_charts,
    limit_charts,
    quality_charts,
    stream_charts,
)

_MOST_DEVICES = 25  # rows of the table


def run_page(run: ReportedRun, notes: Sequence[str]) -> Page:
    """Return a page about a training."""
    page = Page(
        run.name, run.folder, f"{escape(run.controller)} · {escape(run.about)} {_badge(run)}"
    )
    page.notes(notes)
    if run.history:
        _add_rounds(page, run)
    page.section("Repeat it", "Save the job below as job.toml, then run this command.")
    page.copyable(run.command)
    page.copyable(run.job)
    return page


def _badge(run: ReportedRun) -> str:
    if run.ended is None:
        return '<span class="badge going">not ended yet</span>'
    return f'<span class="badge">ended by the {escape(run.ended)}</span>'


def _add_rounds(page: Page, run: ReportedRun) -> None:
    devices = device_figures(run.history)
    page.cards(_cards(run, devices))
    page.section("Quality of the model")
    page.charts(leading_charts(run))
    page.charts(quality_charts(run))
    page.section("Decisions", "The controller chooses them before every round.")
    page.charts(decision_charts(run))
    page.section("Limits")
    page.charts(limit_charts(run))
    _add_devices(page, run, devices)
    if run.streams:
        page.section("Streaming data")
        page.charts(stream_charts(run))
    if any(record.estimates for record in run.history):
        page.section("Estimates", "What the controller has learned after each round.")
        charts = estimate_charts(run)
        page.charts([chart for chart in charts if chart.wide])
        page.charts([chart for chart in charts if not chart.wide], small=True)


def _cards(run: ReportedRun, devices: Sequence[DeviceFigures]) -> list[Card]:
    history = run.history
    last, worst = history[-1], history.worst_class
    cards = _metric_cards(run)
    if worst is not None:
        cards.append(Card("worst class", percent(worst[1]), f"class {worst[0]}"))
    limits = run.limits
    planned = limits.rounds if limits is not None else None
    cards.append(Card("rounds", f"{last.round:,}", f"of {planned:,}" if planned else ""))
    cards.append(_spent("seconds", last.seconds, limits.deadline if limits else math.inf))
    cards.append(_spent("cost", last.cost, limits.budget if limits else math.inf))
    if last.epsilon is not None:
        most = math.inf if limits is None or limits.epsilon is None else limits.epsilon
        cards.append(_spent("privacy loss, epsilon", last.epsilon, most, digits=2))
    cards.append(_range("local steps", [record.local_steps for record in history]))
    cards.append(_range("mean batch size", [record.batch_mean for record in history]))
    if devices and devices[0].slowest:
        share = percent(devices[0].slowest / len(history), 0)
        name = run.device(devices[0].index)
        cards.append(Card("straggler", name, f"the slowest in {share} of rounds"))
    absent = sum(len(record.absent) for record in history)
    if absent:
        cards.append(Card("absent", f"{absent:,}", "times a device was away or too late"))
    if last.sent_bytes:
        cards.append(Card("sent, both ways", byte_size(last.sent_bytes)))
    return cards


def _metric_cards(run: ReportedRun) -> list[Card]:
    """Return cards of the leading metric, the other ones and the worst client."""
    history = run.history
    leading, metrics = history.leading_metric.name, history.final_metrics
    if not metrics:
        return [Card(metric_label(leading), "not evaluated")]
    best = f"{metric_value(leading, history.best)} at best"
    cards = [Card(f"test {metric_label(leading)}", metric_value(leading, history.final), best)]
    cards += [
        Card(metric_label(name), metric_value(name, value))
        for name, value in metrics.items()
        if name not in (leading, "loss")
    ]
    if history.worst_client is not None and history.client_mean is not None:
        client, value = history.worst_client
        mean = metric_value(leading, history.client_mean)
        detail = f"{run.device(client)}; {mean} on average"
        cards.append(Card("worst client", metric_value(leading, value), detail))
    return cards


def _spent(label: str, used: float, limit: float, digits: int = 1) -> Card:
    if not math.isfinite(limit):
        return Card(label, number(used, digits), "no limit")
    share = used / limit
    detail = f"of {number(limit, digits)}, {percent(share, 0)}"
    return Card(label, number(used, digits), detail, share)


def _range(label: str, values: Sequence[float]) -> Card:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    value = low if low == high else f"{low} to {high}"
    return Card(label, value, f"{values[-1]:.3g} at the end")


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _add_devices(page: Page, run: ReportedRun, devices: Sequence[DeviceFigures]) -> None:
    page.section("Devices", "The devices that were most often the slowest come first.")
    page.add(
        '<ul class="legend"><li><i style="background:var(--s1)"></i>local steps</li>'
        '<li><i style="background:var(--s2)"></i>communication</li></ul>'
    )
    longest = max((device.seconds for device in devices), default=0.0)
    rounds = len(run.history)
    rows = [_device_row(run, device, longest, rounds) for device in devices[:_MOST_DEVICES]]
    left = len(devices) - len(rows)
    if left > 0:
        slow = sum(device.slowest for device in devices[_MOST_DEVICES:])
        rows.append(
            f'<tr><td class="name" colspan="7">{left:,} more devices, which were the slowest in '
            f"{slow:,} rounds altogether</td></tr>"
        )
    page.add(
        '<div class="sheet"><table><thead><tr><th>device</th><th class="minor">samples</th>'
        "<th>mean batch</th><th>seconds per round</th><th>slowest in rounds</th>"
        '<th class="minor">absent from rounds</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    heat = batch_heat_map(run)
    if heat is not None:
        page.charts([heat])


def _device_row(run: ReportedRun, device: DeviceFigures, longest: float, rounds: int) -> str:
    def known(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    bar = ""
    if device.compute is not None and device.comm is not None and longest > 0:
        parts = (("compute", device.compute), ("comm", device.comm))
        bar = "".join(
            f'<i class="{kind}" style="width:{100 * part / longest:.1f}%"></i>'
            for kind, part in parts
        )
        bar = f'<span class="split">{bar}</span><b>{_seconds(device.seconds)}</b>'
    share = percent(device.slowest / rounds, 0)
    often = f"{device.slowest:,} <span class=spread>{share}</span>"
    return (
        f'<tr><td class="name">{escape(run.device(device.index))}</td>'
        f'<td class="minor">{known(device.samples, ",")}</td><td>{known(device.batch, ".1f")}</td>'
        f'<td class="time">{bar or "-"}</td><td>{often if device.slowest else "-"}</td>'
        f'<td class="minor">{device.absent or "-"}</td></tr>'
    )
