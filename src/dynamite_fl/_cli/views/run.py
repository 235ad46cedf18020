"""What a person sees of a training: its progress while it runs, and a summary at the end."""

import math
import time
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from dynamite_fl._cli.views.tables import labelled_rows, limit_used
from dynamite_fl._format import count, number, percent
from dynamite_fl.records import Limits
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord

_SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal


@dataclass
class RunView:
    """The progress of a training: redrawn on a terminal, else a line every few seconds.

    Use it as a context manager and show every round to it.
    """

    console: Console
    title: str
    limits: Limits
    _live: Live | None = None
    _accuracy: float | None = None
    _last_line: float = -math.inf
    _start: float = field(default_factory=time.monotonic)

    def __enter__(self) -> "RunView":
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=8, transient=True)
            self._live.start()
        else:
            self.console.print(self.title)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, record: RoundRecord) -> None:
        """Show a round."""
        if record.accuracy is not None:
            self._accuracy = record.accuracy
        if self._live is not None:
            self._live.update(self._progress(record))
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self.console.print(self._line(record))

    def _progress(self, record: RoundRecord) -> RenderableType:
        rows, width = labelled_rows(), self.console.width
        rounds = "" if self.limits.rounds is None else f" of {self.limits.rounds:,}"
        rows.add_row("round", f"[bold]{record.round:,}[/bold]{rounds}")
        if self._accuracy is not None:
            rows.add_row("accuracy", f"[bold]{percent(self._accuracy)}[/bold]")
        rows.add_row("local steps", f"{record.local_steps}")
        rows.add_row("mean batch", f"{record.batch_mean:.1f}")
        rows.add_row("seconds", limit_used(record.seconds, self.limits.deadline, width))
        rows.add_row("cost", limit_used(record.cost, self.limits.budget, width))
        left = self._seconds_left(record)
        if left is not None:
            rows.add_row("done in", f"about {left:,.0f} s of real time")
        return Group(Text(self.title, style="bold"), rows)

    def _line(self, record: RoundRecord) -> str:
        parts = [f"round {record.round:,}: "]
        if self._accuracy is not None:
            parts.append(f"accuracy {percent(self._accuracy)}, ")
        parts.append(
            f"{count(record.local_steps, 'local step')}, mean batch {record.batch_mean:.1f}, "
            f"{number(record.seconds, 1)} s and cost {number(record.cost, 1)} spent"
        )
        left = self._seconds_left(record)
        if left is not None:
            parts.append(f", done in about {left:,.0f} s")
        return "".join(parts)

    def _seconds_left(self, record: RoundRecord) -> float | None:
        """Estimate the real time left from the share of the limits that is used."""
        used = self.limits.share_used(seconds=record.seconds, cost=record.cost, rounds=record.round)
        if used <= 0:
            return None
        return (time.monotonic() - self._start) * max(1 - used, 0.0) / used


def show_summary(
    console: Console, title: str, history: History, limits: Limits, ended: str | None
) -> None:
    """Show what a training reached, what it spent and what is left."""
    if not history:
        console.print(f"{title}: no round was played yet")
        return
    last, width = history[-1], console.width
    rows = labelled_rows()
    rows.add_row("accuracy", _accuracy(history))
    if history.worst_class is not None:
        name, accuracy = history.worst_class
        rows.add_row("worst class", f"{name}, {percent(accuracy)}")
    if history.last("stream_loss") is not None:
        rows.add_row("stream loss", f"{history.last('stream_loss'):.3f} on all data so far")
    end = f"ended by the {ended}" if ended else "not ended yet"
    rows.add_row("rounds", f"{last.round:,}, {end}")
    rows.add_row("seconds", limit_used(last.seconds, limits.deadline, width))
    rows.add_row("cost", limit_used(last.cost, limits.budget, width))
    rows.add_row("left over", _left_over(last, limits))
    rows.add_row("local steps", _range([record.local_steps for record in history]))
    rows.add_row("mean batch", _range([record.batch_mean for record in history]))
    absent = sum(len(record.absent) for record in history)
    if absent:
        rows.add_row("absent", f"{count(absent, 'time')} a device was away or too late")
    refused = sum(record.refused for record in history)
    if refused:
        rows.add_row(
            "refused", f"{count(refused, 'update')}, because of NaN, infinity or a wrong shape"
        )
    console.print(Group(Text(title, style="bold"), rows))


def _accuracy(history: History) -> str:
    final: float | None = history.last("accuracy")
    if final is None:
        return "not evaluated yet"
    text = f"[bold]{percent(final)}[/bold] on the test data"
    if history.best_accuracy > final:
        text += f", {percent(history.best_accuracy)} at best"
    return text


def _left_over(last: RoundRecord, limits: Limits) -> str:
    parts = []
    if math.isfinite(limits.deadline):
        parts.append(f"{number(limits.deadline - last.seconds, 1)} s")
    if math.isfinite(limits.budget):
        parts.append(f"{number(limits.budget - last.cost, 1)} of the budget")
    return " and ".join(parts) or "there is no limit"


def _range(values: list[int] | list[float]) -> str:
    return f"{min(values):,.4g} to {max(values):,.4g}, {values[-1]:,.4g} at the end"
