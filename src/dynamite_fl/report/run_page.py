"""The report of one training."""

import math
from collections.abc import Sequence
from html import escape

from dynamite_fl.report.devices import DeviceFigures, device_figures
from dynamite_fl.report.page import Card, Page
from dynamite_fl.report.run_charts import (
    accuracy_charts,
    batch_heat_map,
    decision_charts,
    estimate_charts,
    limit_charts,
    loss_charts,
    stream_charts,
)
from dynamite_fl.report.shown import ShownRun

_MOST_DEVICES = 25  # that the table lists


def run_page(run: ShownRun, notes: Sequence[str]) -> Page:
    """A page with all there is to see of a training."""
    page = Page(
        run.name, run.folder, f"{escape(run.controller)} · {escape(run.about)} {_badge(run)}"
    )
    page.notes(notes)
    if run.history.lines:
        _add_rounds(page, run)
    page.section("Repeat it", "The job as it was run; save it as job.toml, then")
    page.copied(run.command)
    page.copied(run.job)
    return page


def _badge(run: ShownRun) -> str:
    if run.ended is None:
        return '<span class="badge going">not ended yet</span>'
    return f'<span class="badge">ended by the {escape(run.ended)}</span>'


def _add_rounds(page: Page, run: ShownRun) -> None:
    devices = device_figures(run.history)
    page.cards(_cards(run, devices))
    page.section("How good the model got")
    page.charts(accuracy_charts(run))
    page.charts(loss_charts(run))
    page.section("What was decided", "Chosen anew before every round.")
    page.charts(decision_charts(run))
    page.section("What it took")
    page.charts(limit_charts(run))
    _add_devices(page, run, devices)
    if run.streams:
        page.section("Data that streamed in")
        page.charts(stream_charts(run))
    if any(line["estimates"] for line in run.history.lines):
        page.section("What the controller learned", "As it stood after each round.")
        charts = estimate_charts(run)
        page.charts([chart for chart in charts if chart.wide])
        page.charts([chart for chart in charts if not chart.wide], small=True)


def _cards(run: ShownRun, devices: Sequence[DeviceFigures]) -> list[Card]:
    history = run.history
    last = history.lines[-1]
    final, best, worst = history.final_accuracy, history.best_accuracy, history.worst_class
    cards = [
        Card("accuracy", "not judged")
        if math.isnan(final)
        else Card("test accuracy", f"{final:.1%}", f"at best {best:.1%}")
    ]
    if worst is not None:
        cards.append(Card("worst class", f"{worst[1]:.1%}", f"class {worst[0]}"))
    limits = run.limits
    planned = limits.rounds if limits is not None else None
    cards.append(Card("rounds", f"{last['round']:,}", f"of {planned:,}" if planned else ""))
    cards.append(_spent("seconds", last["seconds"], limits.deadline if limits else math.inf))
    cards.append(_spent("cost", last["cost"], limits.budget if limits else math.inf))
    cards.append(_range(run, "local steps", "local_steps"))
    cards.append(_range(run, "mean batch size", "batch_mean"))
    if devices and devices[0].slowest:
        often = devices[0].slowest / len(history.lines)
        cards.append(
            Card("straggler", run.device(devices[0].place), f"the slowest in {often:.0%} of rounds")
        )
    absent = sum(len(line["absent"]) for line in history.lines)
    if absent:
        cards.append(Card("absent", f"{absent:,}", "times a device was away or too late"))
    if last.get("sent_bytes"):
        cards.append(Card("sent, both ways", _bytes(last["sent_bytes"])))
    return cards


def _spent(what: str, used: float, most: float) -> Card:
    if not math.isfinite(most):
        return Card(what, f"{used:,.1f}", "without limit")
    return Card(what, f"{used:,.1f}", f"of {most:,.1f}, {used / most:.0%}", used / most)


def _range(run: ShownRun, what: str, key: str) -> Card:
    values = [line[key] for line in run.history.lines]
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    value = low if low == high else f"{low} to {high}"
    return Card(what, value, f"{values[-1]:.3g} at the end")


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def _add_devices(page: Page, run: ShownRun, devices: Sequence[DeviceFigures]) -> None:
    page.section("Devices", "Those first for whom all others waited most often.")
    page.add(
        '<ul class="legend"><li><i style="background:var(--s1)"></i>local steps</li>'
        '<li><i style="background:var(--s2)"></i>communication</li></ul>'
    )
    longest = max((each.seconds for each in devices), default=0.0)
    rounds = len(run.history.lines)
    rows = [_device_row(run, each, longest, rounds) for each in devices[:_MOST_DEVICES]]
    left = len(devices) - len(rows)
    if left > 0:
        slow = sum(each.slowest for each in devices[_MOST_DEVICES:])
        rows.append(
            f'<tr><td class="name" colspan="7">and {left:,} more, the slowest in {slow:,} rounds '
            "together</td></tr>"
        )
    page.add(
        '<div class="sheet"><table><thead><tr><th>device</th><th class="minor">samples</th>'
        "<th>mean batch</th><th>seconds a round</th><th>slowest in</th>"
        f'<th class="minor">absent</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )
    heat = batch_heat_map(run)
    if heat is not None:
        page.charts([heat])


def _device_row(run: ShownRun, device: DeviceFigures, longest: float, rounds: int) -> str:
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
    often = f"{device.slowest:,} <span class=spread>{device.slowest / rounds:.0%}</span>"
    return (
        f'<tr><td class="name">{escape(run.device(device.place))}</td>'
        f'<td class="minor">{known(device.samples, ",")}</td><td>{known(device.batch, ".1f")}</td>'
        f'<td class="time">{bar or "-"}</td><td>{often if device.slowest else "-"}</td>'
        f'<td class="minor">{device.absent or "-"}</td></tr>'
    )
