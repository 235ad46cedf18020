"""What a person sees of a training while it runs: on a terminal, in a notebook or in a log.

Commands and ``train()`` use the same view. It is shown before PyTorch is loaded, so this module
must not import it.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from dynamite_fl._format import count, metric_label, metric_value, number, percent
from dynamite_fl._notebook import NotebookDisplay
from dynamite_fl.records import Limits
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord

_no_limits = partial(
    Limits, deadline=math.inf, budget=math.inf, cost_per_sample=0, cost_per_round=0
)
NARROW = 78  # columns of a terminal below which views show less
_BAR = 20  # characters
_SECONDS_BETWEEN_LINES = 10.0  # where nothing can be redrawn
_SECONDS_BEFORE_WAIT = 30.0  # after a line, so that lines of rounds come first


@dataclass
class RunView:
    """The progress of a training: redrawn on a terminal or in a notebook, else a line at times.

    Use it as a context manager. Before the first round, ``say`` shows what is being done. From
    ``begin`` on, ``show`` every round.

    Attributes:
        console: The console that shows it.
        title: The first line.
    """

    console: Console
    title: str
    _limits: Limits = field(default_factory=_no_limits)
    _history: History = field(default_factory=History)  # the latest round, and those before begin
    _reached: str | None = None  # the latest value of the leading metric
    _activity: str = ""
    _live: Live | NotebookDisplay | None = None
    _last_line: float = -math.inf
    _start: float = field(default_factory=time.monotonic)
    _share_at_start: float = 0.0

    def __post_init__(self) -> None:
        name = "dots" if self.console.encoding.startswith("utf") else "line"
        self._spinner = Spinner(name, Text(self.title, style="bold"))

    def __enter__(self) -> "RunView":
        if self.console.is_jupyter:
            self._live = NotebookDisplay(self._picture)
            self._live.start()
        elif self.console.is_terminal:
            self._live = Live(
                console=self.console,
                refresh_per_second=8,
                transient=True,
                get_renderable=self._picture,
            )
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, activity: str) -> None:
        """Show what is being done at present, such as loading data, where it can be redrawn."""
        self._activity = activity
        self._redraw()

    def wait(self, status: str, *, urgent: bool) -> None:
        """Show what the training waits for.

        Args:
            status: A sentence.
            urgent: Whether to print a line at once if there is no terminal. Otherwise there is a
                line if nothing was printed for long.
        """
        self._activity = status
        self._redraw()
        if self._live is None and (urgent or self._is_line_due(_SECONDS_BEFORE_WAIT)):
            self.console.print(status, markup=False, soft_wrap=True)

    def begin(self, title: str, limits: Limits, history: History) -> None:
        """Show that rounds begin, after those of an earlier part of the training.

        Args:
            title: The first line from now on.
            limits: The limits of the training.
            history: The rounds before; none at the start.
        """
        self.title, self._limits, self._history = title, limits, history
        self._spinner.update(text=Text(title, style="bold"))
        self._activity = "The next round is under way" if history else "Round 1 is under way"
        self._start = time.monotonic()
        if history:
            self._share_at_start = self._share_used(history[-1])
            self._note_metric(history)
        self._redraw()
        if self._live is None:
            self.console.print(title, markup=False, soft_wrap=True)

    def show(self, record: RoundRecord) -> None:
        """Show a round."""
        self._activity = ""
        self._history = History((record,), self._history.leading_metric)
        self._note_metric(self._history)
        self._redraw()
        if self._live is None and self._is_line_due():
            self.console.print(self._line(record), markup=False, soft_wrap=True)

    def _note_metric(self, history: History) -> None:
        """Remember the latest value of the leading metric, if one of the rounds was evaluated."""
        if history.final_metrics:
            self._reached = metric_value(history.leading_metric.name, history.final)

    def _redraw(self) -> None:
        """Redraw a notebook; a terminal redraws itself."""
        if isinstance(self._live, NotebookDisplay):
            self._live.refresh()

    def _is_line_due(self, after: float = _SECONDS_BETWEEN_LINES) -> bool:
        is_due = time.monotonic() - self._last_line >= after
        if is_due:
            self._last_line = time.monotonic()
        return is_due

    def _picture(self) -> RenderableType:
        """Return what a terminal shows at present."""
        parts: list[RenderableType] = [self._spinner]
        if self.console.is_jupyter:
            parts = [Text(self.title, style="bold")]  # a notebook does not redraw by itself
        if self._history:
            parts.append(self._rows(self._history[-1]))
        if self._activity:
            parts.append(Text(self._activity, style="dim"))
        return Group(*parts)

    def _rows(self, record: RoundRecord) -> Table:
        rows, width, limits = labelled_rows(), self.console.width, self._limits
        rounds = "" if limits.rounds is None else f" of {limits.rounds:,}"
        rows.add_row("round", f"[bold]{record.round:,}[/bold]{rounds}")
        if self._reached is not None:
            rows.add_row(self._metric_label(), f"[bold]{self._reached}[/bold]")
        rows.add_row("local steps", f"{record.local_steps}")
        rows.add_row("mean batch", f"{record.batch_mean:.1f}")
        if record.learning_rate is not None:
            rows.add_row("learning rate", f"{record.learning_rate:.3g}")
        rows.add_row("seconds", limit_used(record.seconds, limits.deadline, width))
        rows.add_row("cost", limit_used(record.cost, limits.budget, width))
        if record.epsilon is not None:
            rows.add_row("epsilon", epsilon_used(record, limits, width))
        left = self._seconds_left(record)
        if left is not None:
            rows.add_row("done in", f"about {left:,.0f} s of real time")
        return rows

    def _line(self, record: RoundRecord) -> str:
        parts = [f"round {record.round:,}: "]
        if self._reached is not None:
            parts.append(f"{metric_label(self._history.leading_metric.name)} {self._reached}, ")
        parts.append(
            f"{count(record.local_steps, 'local step')}, mean batch {record.batch_mean:.1f}, "
        )
        if record.learning_rate is not None:
            parts.append(f"learning rate {record.learning_rate:.3g}, ")
        if record.epsilon is not None:
            parts.append(f"epsilon {record.epsilon:.2f}, ")
        parts.append(f"{number(record.seconds, 1)} s and cost {number(record.cost, 1)} spent")
        left = self._seconds_left(record)
        if left is not None:
            parts.append(f", done in about {left:,.0f} s")
        return "".join(parts)

    def _metric_label(self) -> str:
        return escape(metric_label(self._history.leading_metric.name))

    def _share_used(self, record: RoundRecord) -> float:
        return self._limits.share_used(
            seconds=record.seconds, cost=record.cost, rounds=record.round
        )

    def _seconds_left(self, record: RoundRecord) -> float | None:
        """Estimate the real time left from the share of the limits that was used since ``begin``.

        It is None until a round was played since then.
        """
        used = self._share_used(record)
        if used <= self._share_at_start:
            return None
        pace = (time.monotonic() - self._start) / (used - self._share_at_start)
        return pace * max(1 - used, 0.0)


@contextmanager
def open_progress(wanted: bool | None, title: str) -> Iterator[RunView | None]:
    """Yield the view of a training that was begun in Python; None to show nothing.

    Args:
        wanted: Whether to show progress; None for only in a notebook and on a terminal.
        title: The first line.
    """
    console = Console(stderr=True, highlight=False)
    can_redraw = console.is_jupyter or console.is_terminal
    if wanted is False or (wanted is None and not can_redraw):
        yield None
        return
    with RunView(console, title) as view:
        view.say("Loading the model and the data")
        yield view


def labelled_rows() -> Table:
    """Return a table of labels and values."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    return grid


def epsilon_used(record: RoundRecord, limits: Limits, width: int) -> Text:
    """Return how much privacy a training has used up to a round."""
    limit = math.inf if limits.epsilon is None else limits.epsilon
    return limit_used(record.epsilon or 0.0, limit, width, digits=2)


def limit_used(used: float, limit: float, width: int, digits: int = 1) -> Text:
    """Return how much of a limit is used, with a bar if the terminal is wide enough.

    Args:
        used: The amount that is used, in the unit of the limit.
        limit: The limit; ``math.inf`` for none.
        width: Columns of the terminal.
        digits: Digits after the point.

    Example:
        >>> limit_used(30, 120, width=40).plain, limit_used(30, math.inf, width=40).plain
        ('30.0 of 120.0, 25%', '30.0, no limit')
    """
    if math.isinf(limit):
        text = f"{number(used, digits)}, no limit"
        return Text(text if width < NARROW else f"{used:>12,.{digits}f}, no limit")
    share = used / limit
    if width < NARROW:
        return Text(f"{number(used, digits)} of {number(limit, digits)}, {percent(share, 0)}")
    filled = round(_BAR * min(share, 1.0))
    return Text.assemble(
        f"{used:>12,.{digits}f} of {limit:>12,.{digits}f}  ",
        ("━" * filled, "cyan"),
        ("─" * (_BAR - filled), "dim"),
        f" {share:4.0%}",
    )
