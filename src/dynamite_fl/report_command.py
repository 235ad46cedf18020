"""What ``dynamite report`` does."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from dynamite_fl.config import JobError
from dynamite_fl.files import write_atomically
from dynamite_fl.hindsight import look_back, ranked
from dynamite_fl.report.comparison_page import comparison_page
from dynamite_fl.report.run_page import run_page
from dynamite_fl.report.shown import ShownComparison, ShownHindsight, ShownRun
from dynamite_fl.report.summary import FEDAVG, Result, Row, Target, summed_up, target_of
from dynamite_fl.report_repeat import FIXED, differences, how_to_repeat
from dynamite_fl.report_runs import find_runs


@dataclass(frozen=True)
class Written:
    """A report: its file, the runs in it, and what it says could not be shown."""

    file: Path
    runs: int
    notes: tuple[str, ...]


def report(paths: Sequence[Path], out: Path | None, as_json: bool) -> None:
    """Write a report and say where it is."""
    with Console(stderr=True).status("Reading runs"):
        written = write_report(paths, out)
    if as_json:
        found = {"file": str(written.file), "runs": written.runs, "notes": written.notes}
        print(json.dumps(found))  # noqa: T201
        return
    for note in written.notes:
        Console(stderr=True, highlight=False).print(f"note: {note}", markup=False, soft_wrap=True)
    runs = "1 run" if written.runs == 1 else f"{written.runs} runs"
    text = f"{runs}, in one file for any browser: {written.file}"
    Console(highlight=False).print(text, markup=False, soft_wrap=True)


def write_report(
    paths: Sequence[Path], out: Path | None = None, *, target: float | None = None
) -> Written:
    """Read run folders, or folders of them, and write one HTML file.

    Args:
        paths: Folders of ``dynamite run`` or ``dynamite compare``.
        out: The file; without it, ``report.html`` in the folder, or here if there are several.
        target: The accuracy to reach; without it, FedAvg's mean.

    Raises:
        JobError: There is nothing to show.
    """
    found = find_runs(paths)
    if not found.runs:
        raise JobError("there is nothing to show: " + "; ".join(found.notes))
    if out is None:
        out = paths[0] / "report.html" if len(paths) == 1 else Path("report.html")
    if len(found.runs) == 1:
        page = run_page(found.runs[0], found.notes)
    else:
        title = paths[0].resolve().name if len(paths) == 1 else "Comparison"
        found.notes += differences(found.runs)
        page = comparison_page(title, compared(found.runs, target), found.notes)
    write_atomically(out, page.html(version("dynamite-fl")))
    return Written(out, len(found.runs), tuple(found.notes))


def compared(runs: Sequence[ShownRun], target: float | None = None) -> ShownComparison:
    """Runs side by side: sums of those that finished, and hindsight if there are fixed pairs."""
    results = [result for run in runs if (result := _result(run)) is not None]
    pairs = [each for each in results if FIXED.fullmatch(each.contender)]
    others = [each for each in results if each not in pairs]
    if not others:
        others, pairs = pairs, []
    repeat = how_to_repeat(runs)
    if not others:
        return ShownComparison(runs=runs, rows=(), target=None, hindsight=None, repeat=repeat)
    goal = target_of(others, target)
    rows = summed_up(others, goal.accuracy)
    hindsight = _hindsight(pairs, goal, rows) if pairs else None
    return ShownComparison(runs=runs, rows=rows, target=goal, hindsight=hindsight, repeat=repeat)


def _result(run: ShownRun) -> Result | None:
    """What came of a run; None while it goes on, if it is damaged, or was never judged."""
    if run.ended is None or not run.is_whole or run.history.last("accuracy") is None:
        return None
    return Result(run.contender, run.seed, Path(run.folder), run.ended, run.history, run.group)


def _hindsight(
    results: Sequence[Result], goal: Target, rows: Sequence[Row]
) -> ShownHindsight | None:
    """What fixed pairs showed, of the first comparison that has some: others' have another way."""
    group = results[0].group
    own = [each for each in results if each.group == group]
    beside = [row for row in rows if row.results[0].group == group]
    first = min(each.seed for each in own)
    fedavg = next((row for row in beside if row.results[0].contender == FEDAVG), None)
    candidates = [*summed_up(own, goal.accuracy), *([fedavg] if fedavg is not None else [])]
    on_first = [each for each in own if each.seed == first]
    found = look_back(ranked(on_first), candidates, beside, fedavg)
    if found is None:
        return None
    tried = [(pair.local_steps, pair.batch_size, each) for pair, each in found.tried.items()]
    return ShownHindsight(best=found.best, gap=found.gap, covered=found.covered, tried=tried)
