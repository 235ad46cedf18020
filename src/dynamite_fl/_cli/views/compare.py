"""What a person sees of a comparison: the progress of its runs, and tables at the end."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from dynamite_fl._cli.views.tables import plain_table
from dynamite_fl._format import (
    count,
    metric_difference,
    metric_label,
    metric_spread,
    number,
    number_spread,
    percent,
)
from dynamite_fl._progress import NARROW
from dynamite_fl.compare.comparison import Comparison
from dynamite_fl.compare.hindsight import Hindsight
from dynamite_fl.compare.summary import ContenderSummary, Spread, Target

_BEST = "bold green"
_BAR = 30  # characters


@dataclass
class CompareView:
    """The progress of runs: bars on a terminal, else a line for each run that ended.

    Use it as a context manager, and as the watcher of the runs.
    """

    console: Console
    total: int = 0
    done: int = 0
    _progress: Progress | None = None
    _all: TaskID | None = None
    _tasks: dict[str, TaskID] = field(default_factory=dict)
    _shares: dict[str, float] = field(default_factory=dict)
    _starts: dict[str, float] = field(default_factory=dict)

    def __enter__(self) -> "CompareView":
        if self.console.is_terminal:
            columns = _columns(narrow=self.console.width < NARROW)
            self._progress = Progress(*columns, console=self.console, transient=True)
            self._all = self._progress.add_task("all runs", total=max(self.total, 1), status="")
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def more(self, runs: int, finished: int) -> None:
        """Take note of more runs, some of which were finished before."""
        self.total += runs
        self.done += finished
        if finished:
            self._print_line(f"{finished} of {count(runs, 'run')} were finished before")
        self._draw()

    def started(self, name: str) -> None:
        """Show that a run started or resumed."""
        self._starts[name] = time.monotonic()
        self._shares[name] = 0.0
        if self._progress is not None:
            self._tasks[name] = self._progress.add_task(name, total=1.0, status="")

    def moved(self, name: str, share: float, reached: str | None) -> None:
        """Show the share of its limits that a run has used, and its leading metric if known."""
        self._shares[name] = min(share, 1.0)
        if self._progress is not None:
            task = self._tasks[name]
            self._progress.update(task, completed=self._shares[name], status=reached or "")
        self._draw()

    def finished(self, name: str, reached: str | None) -> None:
        """Show that a run has finished."""
        self._end(name)
        seconds = time.monotonic() - self._starts[name]
        words = "" if reached is None else f"{reached}, "
        self._print_line(f"{self.done} of {self.total}: {name}, {words}took {seconds:.0f} s")

    def failed(self, name: str, reason: str) -> None:
        """Show that a run has failed."""
        self._end(name)
        self._print_line(f"{self.done} of {self.total}: {name} failed: {reason}")

    def warned(self, name: str, message: str) -> None:
        """Show a warning about a run that goes on."""
        self.console.print(f"{name}: {message}", markup=False, soft_wrap=True)

    def stopping(self) -> None:
        """Show that all runs were interrupted."""
        self.console.print("Stopping after the current rounds. Press Ctrl-C again to stop at once.")

    def _end(self, name: str) -> None:
        self.done += 1
        self._shares.pop(name, None)
        if self._progress is not None:
            self._progress.remove_task(self._tasks.pop(name))
        self._draw()

    def _print_line(self, text: str) -> None:
        """Print a line where there is no terminal; on one, the bars show as much."""
        if self._progress is None:
            self.console.print(text, markup=False, soft_wrap=True)

    def _draw(self) -> None:
        if self._progress is not None and self._all is not None:
            self._progress.update(
                self._all,
                total=self.total,
                completed=self.done + sum(self._shares.values()),
                status=f"{self.done} of {self.total} done",
            )


def _columns(narrow: bool) -> tuple[ProgressColumn, ...]:
    """Return the columns of the progress; a narrow terminal shows a percentage for a bar."""
    name = TextColumn(
        "{task.description}", markup=False, table_column=Column(ratio=1 if narrow else None)
    )
    status = TextColumn("{task.fields[status]}", markup=False)
    if narrow:
        return name, TextColumn("{task.percentage:>3.0f}%"), status
    return name, BarColumn(bar_width=_BAR), status, TimeElapsedColumn()


def show_comparison(console: Console, comparison: Comparison) -> None:
    """Show what each contender reached and spent, and what it took to reach the target."""
    target, hindsight = comparison.target, comparison.hindsight
    if target is None:
        return
    rows, seeds = comparison.contenders, comparison.request.seeds
    covered = None if hindsight is None else hindsight.covered
    console.print(_results_table(rows, seeds, covered, console.width))
    notes = f"* the best {metric_label(target.metric.name)}"
    if not target.metric.higher_is_better:
        notes += "; lower is better"
    if seeds > 1:
        notes += "; ± one standard deviation over seeds"
    console.print(f"{notes}\n", style="dim")
    console.print(_target_table(rows, target, console.width))
    console.print(
        f"The target is {target.origin}. * the least among those that reach it on all seeds",
        style="dim",
    )
    if comparison.tuned:
        console.print()
        _show_tuned(console, comparison)
    if hindsight is not None:
        _show_hindsight(console, hindsight)


def show_failures(console: Console, failures: Mapping[str, str]) -> None:
    """Show which runs failed, and why."""
    for name, reason in failures.items():
        line = Text.assemble((f"{name} failed: ", "bold red"), reason)
        console.print(line, soft_wrap=True)


def _results_table(
    rows: Sequence[ContenderSummary],
    seeds: int,
    covered: Mapping[str, float | None] | None,
    width: int,
) -> Table:
    """Return a table of all contenders; a narrow terminal shows the metric and shares only."""
    worst = _worst_headings(rows) if width >= NARROW else ()
    spent = ("rounds", "seconds", "cost") if width >= NARROW else ()
    share = () if covered is None else ("of the way",)
    metric = rows[0].leading_metric.name
    table = plain_table("controller", escape(metric_label(metric)), *worst, *spent, *share)
    for place, row in enumerate(rows):
        name = row.contender + (" *" if place == 0 else "")
        if len(row.results) < seeds:
            name += f" ({len(row.results)} of {seeds} seeds)"
        cells = {
            "worst class": _metric("accuracy", row.worst_class),
            "worst client": _metric(metric, row.worst_client),
            "rounds": number_spread(row.rounds.mean, row.rounds.deviation, 0),
            "seconds": _number(row.seconds),
            "cost": _number(row.cost),
            "of the way": _share(None if covered is None else covered.get(row.contender)),
        }
        shown = [cells[heading] for heading in (*worst, *spent, *share)]
        table.add_row(name, _metric(metric, row.final), *shown, style=_BEST if place == 0 else "")
    return table


def _worst_headings(rows: Sequence[ContenderSummary]) -> tuple[str, ...]:
    """Return the headings for classes, where data streams in, and for clients."""
    streams = any(row.stream_loss is not None for row in rows)
    clients = any(row.worst_client is not None for row in rows)
    return ("worst class",) * streams + ("worst client",) * clients


def _target_table(rows: Sequence[ContenderSummary], target: Target, width: int) -> Table:
    """Return seconds and cost to the target; the least of those that always reach it is marked.

    On a narrow terminal, the seeds that reached it are left out if all of them did.
    """
    narrow = width < NARROW
    headings = ("seconds", "cost") if narrow else ("after seconds", "after cost")
    sure = [row for row in rows if row.always_reached]
    counted = not narrow or len(sure) < len(rows)
    table = plain_table(f"to {target}", *(("reached",) if counted else ()), *headings)
    for row in rows:
        cells = [f"{len(row.reached)} of {len(row.results)}"] if counted else []
        for key in ("seconds_to_target", "cost_to_target"):
            spread = getattr(row, key)
            least = min((getattr(contender, key).mean for contender in sure), default=None)
            is_best = row in sure and spread.mean == least
            text = "-"
            if spread is not None:
                text = number(spread.mean) if narrow else _number(spread)
                text += " *" if is_best else "  "
            cells.append(f"[{_BEST}]{text}[/]" if is_best else text)
        table.add_row(row.contender, *cells)
    return table


def _show_tuned(console: Console, comparison: Comparison) -> None:
    """Show at how many rates methods were tried."""
    for tuned in comparison.tuned:
        console.print(
            f"{tuned.best} has the best of {count(len(tuned.tried), 'rate')} for {tuned.method}, "
            "in hindsight.",
            markup=False,
        )
    if comparison.diverged:
        console.print(f"{count(len(comparison.diverged), 'trial')} of searches diverged.")


def _show_hindsight(console: Console, hindsight: Hindsight) -> None:
    best, fedavg = hindsight.best, hindsight.fedavg
    metric = best.leading_metric.name
    console.print(
        f"The best setting in hindsight is [{_BEST}]{best.contender}[/] (local steps x batch "
        f"size @ learning rate) with {_metric(metric, best.final)}, "
        f"of {count(len(hindsight.tried), 'fixed setting')} and FedAvg's own.",
    )
    if hindsight.gap is not None and fedavg is not None:
        gap = metric_difference(metric, hindsight.gap, hindsight.deviation)
        console.print(
            f"Its {escape(metric_label(metric))} is {gap} better than that of {fedavg.contender}. "
            '"Of the way" is the share of this difference that a controller gains.',
        )


def _share(covered: float | None) -> str:
    return "-" if covered is None else percent(covered, 0)


def _metric(name: str, spread: Spread | None) -> str:
    return "-" if spread is None else metric_spread(name, spread.mean, spread.deviation)


def _number(spread: Spread) -> str:
    return number_spread(spread.mean, spread.deviation)
