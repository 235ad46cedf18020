"""What a person sees of a comparison: how far its runs are, and a table at the end."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dynamite_fl.hindsight import Hindsight
from dynamite_fl.report.summary import Row, Spread, Target

_BEST = "bold green"


@dataclass
class CompareView:
    """Runs as they go: bars on a terminal, else a line for each that is over.

    Use it as a context, and as the watcher of the runs.
    """

    console: Console
    total: int = 0
    done: int = 0
    _progress: Progress | None = None
    _all: TaskID | None = None
    _tasks: dict[str, TaskID] = field(default_factory=dict)
    _shares: dict[str, float] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)

    def __enter__(self) -> "CompareView":
        if self.console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[news]}", markup=False),
                TimeElapsedColumn(),
                console=self.console,
                transient=True,
            )
            self._all = self._progress.add_task("all runs", total=max(self.total, 1), news="")
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def more(self, runs: int, finished: int) -> None:
        """So many runs are to be done, of which some were finished before."""
        self.total += runs
        self.done += finished
        if finished:
            self._say(f"{finished} of {runs} runs were finished before")
        self._draw()

    def began(self, name: str) -> None:
        """A run was begun, or taken up again."""
        self._began[name] = time.monotonic()
        self._shares[name] = 0.0
        if self._progress is not None:
            self._tasks[name] = self._progress.add_task(name, total=1.0, news="")

    def moved(self, name: str, share: float, accuracy: float | None) -> None:
        """A run used up this share of its limits."""
        self._shares[name] = min(share, 1.0)
        if self._progress is not None:
            news = "" if accuracy is None else f"accuracy {accuracy:.1%}"
            self._progress.update(self._tasks[name], completed=self._shares[name], news=news)
        self._draw()

    def finished(self, name: str, accuracy: float | None) -> None:
        """A run reached its end."""
        self._over(name)
        seconds = time.monotonic() - self._began[name]
        reached = "" if accuracy is None else f"accuracy {accuracy:.3f}, "
        self._say(f"{self.done} of {self.total}: {name}, {reached}took {seconds:.0f} s")

    def failed(self, name: str, reason: str) -> None:
        """A run could not go on."""
        self._over(name)
        self._say(f"{self.done} of {self.total}: {name} failed: {reason}")

    def told(self, name: str, words: str) -> None:
        """Something is amiss with a run that goes on."""
        self.console.print(f"{name}: {words}", markup=False, soft_wrap=True)

    def stopping(self) -> None:
        """All was interrupted."""
        self.console.print("Ending after the rounds under way; Ctrl-C again ends at once.")

    def _over(self, name: str) -> None:
        self.done += 1
        self._shares.pop(name, None)
        if self._progress is not None:
            self._progress.remove_task(self._tasks.pop(name))
        self._draw()

    def _say(self, sentence: str) -> None:
        """A line where there is no terminal; on one, the bars say it."""
        if self._progress is None:
            self.console.print(sentence, markup=False, soft_wrap=True)

    def _draw(self) -> None:
        if self._progress is not None and self._all is not None:
            self._progress.update(
                self._all,
                total=self.total,
                completed=self.done + sum(self._shares.values()),
                news=f"{self.done} of {self.total} done",
            )


def show_comparison(
    console: Console, rows: Sequence[Row], target: Target, seeds: int, hindsight: Hindsight | None
) -> None:
    """What each controller reached and spent, and what it took to reach the target."""
    covered = None if hindsight is None else hindsight.covered
    console.print(_reached_table(rows, seeds, covered))
    console.print("* the most accurate; ± one standard deviation over seeds\n", style="dim")
    console.print(_target_table(rows, target))
    whose = "as asked for" if target.mean_of is None else f"the mean accuracy of {target.mean_of}"
    console.print(f"the target is {whose}; * the least where all seeds reach it", style="dim")
    if hindsight is not None:
        console.print()
        _show_hindsight(console, hindsight)


def show_failures(console: Console, failures: Mapping[str, str]) -> None:
    """Which runs failed, and why."""
    for name, reason in failures.items():
        line = Text.assemble((f"{name} failed: ", "bold red"), reason)
        console.print(line, soft_wrap=True)


def _table(*headings: str) -> Table:
    """A table without lines: names on the left, numbers on the right."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _reached_table(
    rows: Sequence[Row], seeds: int, covered: Mapping[str, float | None] | None
) -> Table:
    way = () if covered is None else ("of the way",)
    streams = any(row.stream_loss is not None for row in rows)
    worst = ("worst class",) if streams else ()
    table = _table("controller", "accuracy", *worst, "rounds", "seconds", "cost", *way)
    for place, row in enumerate(rows):
        name = row.contender + (" *" if place == 0 else "")
        if len(row.results) < seeds:
            name += f" ({len(row.results)} of {seeds} seeds)"
        figures = [_percent(row.accuracy)]
        if streams:
            figures.append("-" if row.worst_class is None else _percent(row.worst_class))
        figures += [_number(row.rounds, 0), _number(row.seconds), _number(row.cost)]
        if covered is not None:
            figures.append(_share(covered.get(row.contender)))
        table.add_row(name, *figures, style=_BEST if place == 0 else "")
    return table


def _target_table(rows: Sequence[Row], target: Target) -> Table:
    """Seconds and cost to the target, the least of those whom all seeds led there marked."""
    reached = f"reached {target.accuracy:.1%}"
    table = _table("to the target", reached, "after seconds", "after cost")
    sure = [row for row in rows if row.reached == len(row.results)]
    for row in rows:
        figures = [f"{row.reached} of {len(row.results)}"]
        for key in ("seconds_to_target", "cost_to_target"):
            spread = getattr(row, key)
            least = min((getattr(each, key).mean for each in sure), default=None)
            is_best = row in sure and spread.mean == least
            text = "-" if spread is None else _number(spread) + (" *" if is_best else "  ")
            figures.append(f"[{_BEST}]{text}[/]" if is_best else text)
        table.add_row(row.contender, *figures)
    return table


def _show_hindsight(console: Console, hindsight: Hindsight) -> None:
    best = hindsight.best
    console.print(
        f"best in hindsight: [{_BEST}]{best.contender}[/] (local steps x batch size), "
        f"{_percent(best.accuracy)}, of {len(hindsight.tried)} fixed pairs beside FedAvg",
        soft_wrap=True,
    )
    if hindsight.gap is not None:
        console.print(
            f"from FedAvg to it: {100 * hindsight.gap:.1f} points of accuracy"
            + ("" if hindsight.deviation is None else f" ± {100 * hindsight.deviation:.1f}")
            + "; of the way is the share of them that a controller covers",
            soft_wrap=True,
        )


def _share(covered: float | None) -> str:
    return "n/a" if covered is None else f"{covered:.0%}"


def _percent(spread: Spread) -> str:
    if spread.deviation is None:
        return f"{spread.mean:.1%}"
    return f"{spread.mean:.1%} ± {100 * spread.deviation:.1f}"


def _number(spread: Spread, decimals: int | None = None) -> str:
    """With as many decimals as its size calls for, unless they are given."""
    if decimals is None:
        decimals = 0 if spread.mean >= 100 else 1
    text = f"{spread.mean:,.{decimals}f}"
    return text if spread.deviation is None else f"{text} ± {spread.deviation:,.{decimals}f}"
