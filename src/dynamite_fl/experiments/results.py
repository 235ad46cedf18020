"""``docs/results.md``: one page about all experiments, written from their run folders."""

from collections.abc import Sequence
from pathlib import Path

from dynamite_fl._atomic import write_atomically
from dynamite_fl.errors import JobError
from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.experiment import load_experiment
from dynamite_fl.experiments.markdown import heading, section
from dynamite_fl.experiments.runs import ExperimentRuns
from dynamite_fl.experiments.summary import Summary, figure_svg, require_matplotlib, summarize

PAGE = "results.md"
_PICTURES = "results"

_HEAD = """\
# Results

This page repeats the figures and tables of the paper's evaluation and compares them with the
paper's claims. It is generated from run folders by
`dynamite experiment results {options} --runs RUNS --out docs`.

- **DYNAMITE** is the paper's rule (controller `dynamite`). **feedback** is our default
  (`dynamite-feedback`), which is not in the paper.
- Tables show means ± one standard deviation over seeds. In a verdict, ± is one standard error.
- A difference counts only if it exceeds its standard error over seeds, where contenders are
  compared on the same seed. With two seeds that means that both agree.
- A claim *holds* if all comparisons that were run hold, and *does not hold* if one fails. It is
  *not at this scale* if none was run. If all were run with a single seed, the verdict is
  *one seed shows no spread*.
- *Likely why* is an explanation that was written with the experiment and not measured in these
  runs.
- Seconds are those of the simulated devices, and cost is in the job's units. Neither depends on the
  machine that computes.

| experiment | scale | in the paper | claims that hold | that do not | not judged | for feedback |
|---|---|---|---|---|---|---|
"""


def write_results(
    root: Path, scale: str, out: Path, also: str | None = None
) -> tuple[list[str], list[str]]:
    """Write the page and its pictures.

    Args:
        root: The folder of all experiments.
        scale: The scale to show.
        out: The folder of the page.
        also: A second scale. Experiments that were run at it are shown at that scale too.

    Returns:
        The names of the experiments that are on the page at the first scale, and of those that were
        not run at it.

    Raises:
        JobError: No experiment was run. An existing page is not changed.
    """
    require_matplotlib()
    scales = [scale] if also is None else [scale, also]
    found = [_summary(name, each, root) for each in scales for name in NAMES]
    summaries = [summary for summary in found if summary]
    shown = [s.experiment.name for s in summaries if s.runs.scale == scale]
    if not shown:
        raise JobError(
            f"{root / scale} has no finished run: choose another --runs or --scale, "
            f"or run `dynamite experiment {NAMES[0]} --scale {scale} --runs {root}` first"
        )
    (out / _PICTURES).mkdir(parents=True, exist_ok=True)
    for summary in summaries:
        write_atomically(out / _picture(summary, scale), figure_svg(summary))
    missing = [name for name in NAMES if name not in shown]
    write_atomically(out / PAGE, _page(summaries, missing, scales))
    return shown, missing


def _summary(name: str, scale: str, root: Path) -> Summary | None:
    """Return an experiment's summary with the seeds that it was run with; None if it was not."""
    experiment, seeds = load_experiment(name), 0
    while any(
        run.is_finished and run.seed == seeds
        for run in ExperimentRuns(experiment, scale, seeds + 1, root).all()
    ):
        seeds += 1
    summary = summarize(ExperimentRuns(experiment, scale, seeds, root))
    return summary if summary.charts else None


def _picture(summary: Summary, first_scale: str) -> str:
    """Return the path of a figure, relative to the page."""
    scale = summary.runs.scale
    ending = "" if scale == first_scale else f"-{scale}"
    return f"{_PICTURES}/{summary.experiment.name}{ending}.svg"


def _page(summaries: Sequence[Summary], missing: Sequence[str], scales: Sequence[str]) -> str:
    text = _HEAD.format(options=" --also ".join([f"--scale {scales[0]}", *scales[1:]]))
    for summary in summaries:
        link = f"[{summary.experiment.name}](#{_anchor(heading(summary))})"
        cells = [link, summary.runs.scale, f"`{summary.experiment.shows}`", *_counts(summary)]
        text += f"| {' | '.join(cells)} |\n"
    for name in missing:
        text += f"| {name} | {scales[0]} | `{load_experiment(name).shows}` | not run | | | |\n"
    for summary in summaries:
        text += "\n" + section(summary, _picture(summary, scales[0]), level=2)
    return text


def _counts(summary: Summary) -> list[str]:
    """Return how many claims hold, do not hold and are not judged, and how many hold for ours."""
    paper = [verdict.verdict for verdict in summary.verdicts if not verdict.also_of]
    ours = [verdict.verdict for verdict in summary.verdicts if verdict.also_of]
    holds, fails = paper.count("holds"), paper.count("does not hold")
    counts = [str(count or "") for count in (holds, fails, len(paper) - holds - fails)]
    return [*counts, f"{ours.count('holds')} of {len(ours)}" if ours else ""]


def _anchor(text: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return "".join(c for c in text.lower().replace(" ", "-") if c.isalnum() or c in "-_")
