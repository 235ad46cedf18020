"""The summary of a training that a person sees at its end."""

import math
from collections.abc import Sequence

from rich.console import Console, Group
from rich.markup import escape
from rich.text import Text

from dynamite_fl._format import count, metric_label, metric_value, number, percent
from dynamite_fl._progress import epsilon_used, labelled_rows, limit_used
from dynamite_fl.records import Limits
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord


def show_summary(
    console: Console,
    title: str,
    history: History,
    limits: Limits,
    ended: str | None,
    devices: Sequence[str] = (),
) -> None:
    """Show what a training reached, what it spent and what is left.

    Args:
        console: The console that shows it.
        title: The first line.
        history: The rounds of the training.
        limits: The limits of the training.
        ended: The limit that ended the training; None while it can go on.
        devices: The names of the devices, as far as they are known.
    """
    if not history:
        console.print(f"{title}: no round was played yet", markup=False)
        return
    last, width = history[-1], console.width
    rows = labelled_rows()
    leading = history.leading_metric.name
    rows.add_row(_label(leading), _reached(history))
    for name, value in history.final_metrics.items():
        if name not in (leading, "loss"):
            rows.add_row(_label(name), metric_value(name, value))
    if history.worst_client is not None and history.client_mean is not None:
        client, value = history.worst_client
        name = devices[client] if client < len(devices) else f"client {client}"
        mean = metric_value(leading, history.client_mean)
        rows.add_row(
            "worst client", f"{escape(name)}, {metric_value(leading, value)}; {mean} on average"
        )
    if history.worst_class is not None:
        name, accuracy = history.worst_class
        rows.add_row("worst class", f"{escape(name)}, {percent(accuracy)}")
    if history.last("stream_loss") is not None:
        rows.add_row("stream loss", f"{history.last('stream_loss'):.3f} on all data so far")
    end = f"ended by the {ended}" if ended else "not ended yet"
    rows.add_row("rounds", f"{last.round:,}, {end}")
    rows.add_row("seconds", limit_used(last.seconds, limits.deadline, width))
    rows.add_row("cost", limit_used(last.cost, limits.budget, width))
    if last.epsilon is not None:
        rows.add_row("epsilon", epsilon_used(last, limits, width))
        rows.add_row("delta", "unknown" if limits.delta is None else f"{limits.delta:g}")
    rows.add_row("left over", _left_over(last, limits))
    rows.add_row("local steps", _range([record.local_steps for record in history]))
    rows.add_row("mean batch", _range([record.batch_mean for record in history]))
    rates = [record.learning_rate for record in history if record.learning_rate is not None]
    if rates:
        rows.add_row("learning rate", _range([float(f"{rate:.3g}") for rate in rates]))
    returns = [str(record.round) for record in history if record.returned]
    if returns:
        rows.add_row(
            "returned",
            f"to an earlier model in round {', '.join(returns)}",
        )
    absent = sum(len(record.absent) for record in history)
    if absent:
        rows.add_row("absent", f"{count(absent, 'time')} a device was away or too late")
    refused = sum(record.refused for record in history)
    if refused:
        rows.add_row(
            "refused", f"{count(refused, 'update')}, because of NaN, infinity or a wrong shape"
        )
    console.print(Group(Text(title, style="bold"), rows))


def _reached(history: History) -> str:
    if not history.final_metrics:
        return "not evaluated yet"
    metric, final, best = history.leading_metric, history.final, history.best
    text = f"[bold]{metric_value(metric.name, final)}[/bold] on the test data"
    if metric.better(best, final) or (math.isnan(final) and not math.isnan(best)):
        text += f", {metric_value(metric.name, best)} at best"
    return text


def _label(metric_name: str) -> str:
    return escape(metric_label(metric_name))


def _left_over(last: RoundRecord, limits: Limits) -> str:
    parts = []
    if math.isfinite(limits.deadline):
        parts.append(f"{number(limits.deadline - last.seconds, 1)} s")
    if math.isfinite(limits.budget):
        parts.append(f"{number(limits.budget - last.cost, 1)} of the budget")
    if limits.epsilon is not None and last.epsilon is not None:
        parts.append(f"{limits.epsilon - last.epsilon:.2f} of epsilon")
    *others, final = parts or ["there is no limit"]
    return f"{', '.join(others)} and {final}" if others else final


def _range(values: list[int] | list[float]) -> str:
    return f"{min(values):,.4g} to {max(values):,.4g}, {values[-1]:,.4g} at the end"
