"""What a person sees of a training: live while it runs, and summed up after."""

import math
import time
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dynamite_fl.records import Limits
from dynamite_fl.report.history import History, Line
from dynamite_fl.terminal import spent

_PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal


@dataclass
class RunView:
    """A training as it goes: a view that is drawn anew, or lines where there is no terminal.

    Use it as a context and give it every line of the history.
    """

    console: Console
    title: str
    limits: Limits
    _live: Live | None = None
    _accuracy: float = math.nan
    _written: float = -math.inf
    _began: float = field(default_factory=time.monotonic)

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

    def show(self, line: Line) -> None:
        """A round more."""
        if line["accuracy"] is not None:
            self._accuracy = line["accuracy"]
        if self._live is not None:
            self._live.update(self._picture(line))
        elif time.monotonic() - self._written >= _PLAIN_EVERY:
            self._written = time.monotonic()
            self.console.print(self._sentence(line))

    def _picture(self, line: Line) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(no_wrap=True)
        rounds = "" if self.limits.rounds is None else f" of {self.limits.rounds:,}"
        grid.add_row("round", f"[bold]{line['round']:,}[/bold]{rounds}")
        grid.add_row("accuracy", f"[bold]{self._accuracy:.1%}[/bold]")
        grid.add_row("local steps", f"{line['local_steps']}")
        grid.add_row("mean batch", f"{line['batch_mean']:.1f}")
        grid.add_row("seconds", spent(line["seconds"], self.limits.deadline))
        grid.add_row("cost", spent(line["cost"], self.limits.budget))
        grid.add_row("ready in", f"{self._seconds_left(line):,.0f} s of this machine's time")
        return Group(Text(self.title, style="bold"), grid)

    def _sentence(self, line: Line) -> str:
        return (
            f"round {line['round']}: accuracy {self._accuracy:.3f}, {line['local_steps']} local "
            f"steps, mean batch {line['batch_mean']:.1f}, {line['seconds']:,.1f} s and "
            f"{line['cost']:,.1f} cost spent, ready in {self._seconds_left(line):,.0f} s"
        )

    def _seconds_left(self, line: Line) -> float:
        """Of this machine's time, from the share of the limits that is used up."""
        shares = [line["seconds"] / self.limits.deadline, line["cost"] / self.limits.budget]
        if self.limits.rounds is not None:
            shares.append(line["round"] / self.limits.rounds)
        used = max(shares)
        return (time.monotonic() - self._began) * (1 - used) / used if used > 0 else math.inf


def show_summary(
    console: Console, title: str, history: History, limits: Limits, ended: str | None
) -> None:
    """What was reached, spent and left."""
    if not history.lines:
        console.print(f"{title}: no round was played yet")
        return
    last = history.lines[-1]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    reached = f"[bold]{history.final_accuracy:.1%}[/bold] on the test data"
    if history.best_accuracy > history.final_accuracy:
        reached += f", at best {history.best_accuracy:.1%}"
    grid.add_row("accuracy", reached)
    if history.worst_class is not None:
        grid.add_row("worst class", "{}, {:.1%}".format(*history.worst_class))
    if history.last("stream_loss") is not None:
        grid.add_row("loss so far", f"{history.last('stream_loss'):.3f} on all that has arrived")
    grid.add_row(
        "rounds", f"{last['round']:,}, " + (f"ended by the {ended}" if ended else "not ended yet")
    )
    grid.add_row("seconds", spent(last["seconds"], limits.deadline))
    grid.add_row("cost", spent(last["cost"], limits.budget))
    grid.add_row("left over", _left_over(last, limits))
    grid.add_row("local steps", _range(history, "local_steps"))
    grid.add_row("mean batch", _range(history, "batch_mean"))
    absent = sum(len(line["absent"]) for line in history.lines)
    if absent:
        grid.add_row("absent", f"{absent:,} times a device was not there or too late")
    refused = sum(line["refused"] for line in history.lines)
    if refused:
        grid.add_row("refused", f"{refused:,} updates that were not finite or of the wrong shape")
    console.print(Group(Text(title, style="bold"), grid))


def _left_over(last: Line, limits: Limits) -> str:
    parts = []
    if math.isfinite(limits.deadline):
        parts.append(f"{limits.deadline - last['seconds']:,.1f} s")
    if math.isfinite(limits.budget):
        parts.append(f"{limits.budget - last['cost']:,.1f} of the budget")
    return " and ".join(parts) or "there was no limit"


def _range(history: History, key: str) -> str:
    values = [line[key] for line in history.lines]
    return f"{min(values):,.4g} to {max(values):,.4g}, {values[-1]:,.4g} at the end"
