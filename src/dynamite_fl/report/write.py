"""Write a report about run folders into one HTML file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from dynamite_fl._atomic import write_atomically
from dynamite_fl.compare.hindsight import FixedSetting, Hindsight, look_back
from dynamite_fl.compare.names import method_of
from dynamite_fl.compare.summary import (
    ContenderSummary,
    RunResult,
    choose_target,
    summarize,
    title_of,
)
from dynamite_fl.compare.tuning import Tuned, is_trial, tuned_by, tuned_methods
from dynamite_fl.errors import JobError
from dynamite_fl.report.comparison_page import comparison_page
from dynamite_fl.report.contents import DIVERGED, ReportedComparison, ReportedRun
from dynamite_fl.report.page import Page
from dynamite_fl.report.read_runs import find_runs
from dynamite_fl.report.repeat_command import how_to_repeat, job_differences
from dynamite_fl.report.run_page import run_page


@dataclass(frozen=True)
class WrittenReport:
    """A report that was written.

    Attributes:
        file: The HTML file.
        runs: The number of runs in it.
        notes: What the report says about runs that are missing or incomplete.
    """

    file: Path
    runs: int
    notes: tuple[str, ...]


def write_report(
    paths: Sequence[Path], out: Path | None = None, *, target: float | None = None
) -> WrittenReport:
    """Write a report about run folders, or folders of them, into one HTML file.

    Args:
        paths: Folders of ``dynamite run`` or ``dynamite compare``.
        out: The file to write. Default: ``report.html`` in the folder, or in the current folder if
            there are several paths.
        target: The value of the leading metric to reach. Default: FedAvg's mean.

    Raises:
        JobError: There is no run to show.
        MissingExtra: plotly is not installed.
    """
    found = find_runs(paths)
    if not found.runs:
        raise JobError("there is no run to show: " + "; ".join(found.notes))
    if out is None:
        out = paths[0] / "report.html" if len(paths) == 1 else Path("report.html")
        if out.is_symlink():  # somebody else may have made the folder, and the link
            raise JobError(f"{out} is a link: name the file to write by --out")
    notes = [*found.notes, *found.going, *differences(found.runs)]
    title = paths[0].resolve().name if len(paths) == 1 else "Comparison"
    page = page_of(found.runs, notes, title, target)
    write_atomically(out, page.html(version("dynamite-fl")))
    return WrittenReport(out, len(found.runs), tuple(notes))


def page_of(
    runs: Sequence[ReportedRun], notes: Sequence[str], title: str, target: float | None = None
) -> Page:
    """Return the page about one run, or about several side by side.

    Args:
        runs: The runs, at least one.
        notes: What the reader should see first.
        title: The title of a page about several runs.
        target: The value of the leading metric to reach. Default: FedAvg's mean.
    """
    if len(runs) == 1:
        return run_page(runs[0], notes)
    return comparison_page(title, compare_runs(runs, target), notes)


def differences(runs: Sequence[ReportedRun]) -> list[str]:
    """Return notes on what makes runs hard to compare; none for a single run."""
    return [] if len(runs) < 2 else [*job_differences(runs), *_metric_differences(runs)]


def compare_runs(runs: Sequence[ReportedRun], target: float | None = None) -> ReportedComparison:
    """Summarize the runs that finished and have the leading metric of the first run.

    Runs with fixed settings are not contenders. The best of them is what contenders are compared
    with in hindsight. If there are no other runs, they are the contenders. A method that was run at
    three rates or more is a contender at the best of them.
    """
    metric = runs[0].history.leading_metric
    alike = [run for run in runs if run.history.leading_metric == metric]
    results = [result for run in alike if (result := _result(run)) is not None]
    fixed = [result for result in results if FixedSetting.from_name(result.contender) is not None]
    contending = [result for result in results if result not in fixed]
    if not contending:
        contending, fixed = fixed, []
    tuned = _tuned(contending, runs)
    tried, best = {name for each in tuned for name in each.tried}, {each.best for each in tuned}
    contending = [each for each in contending if each.title in best or each.title not in tried]
    repeat = how_to_repeat(runs)
    if not contending:
        return ReportedComparison(
            runs=runs, contenders=(), target=None, tuned=(), hindsight=None, repeat=repeat
        )
    chosen = choose_target(contending, target)
    contenders = summarize(contending, chosen.value)
    return ReportedComparison(
        runs=runs,
        contenders=contenders,
        target=chosen,
        tuned=tuned,
        hindsight=_hindsight(fixed, contenders, chosen.value) if fixed else None,
        repeat=repeat,
    )


def _tuned(results: Sequence[RunResult], runs: Sequence[ReportedRun]) -> list[Tuned]:
    """Return the methods that were run at three rates or more, at the best of them."""
    methods = tuned_methods(run for run in runs if FixedSetting.from_name(run.contender) is None)
    trials: dict[tuple[str, str], list[RunResult]] = {}
    for result in results:
        if is_trial(result, methods):
            trials.setdefault((result.group, method_of(result.contender)), []).append(result)
    return [tuned_by(title_of(*key), of_method) for key, of_method in trials.items()]


def _metric_differences(runs: Sequence[ReportedRun]) -> list[str]:
    """Return a note if runs are judged by different metrics."""
    metrics = dict.fromkeys(run.history.leading_metric for run in runs)
    if len(metrics) == 1:
        return []
    names = ", ".join(metric.name for metric in metrics)
    first = next(iter(metrics)).name
    return [f"these runs are judged by different metrics ({names}): those of {first} are compared"]


def _result(run: ReportedRun) -> RunResult | None:
    """Return the result of a run; None if it has not ended well or is damaged."""
    ended_well = run.ended not in (None, DIVERGED) and not math.isnan(run.history.final)
    if run.ended is None or not ended_well or not run.is_complete:
        return None
    return RunResult(run.contender, run.seed, Path(run.folder), run.ended, run.history, run.group)


def _hindsight(
    fixed: Sequence[RunResult], contenders: Sequence[ContenderSummary], target: float
) -> Hindsight | None:
    """Compare contenders with the best fixed setting of the same comparison.

    A report may cover several comparisons. Each has its own gap between FedAvg and the best fixed
    setting, so only the first comparison that has fixed settings is used.
    """
    group = fixed[0].group
    return look_back(
        [result for result in fixed if result.group == group],
        [contender for contender in contenders if contender.results[0].group == group],
        target,
    )
