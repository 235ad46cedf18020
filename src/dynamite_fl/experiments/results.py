"""``docs/results.md``: one page about all experiments, written from their run folders."""

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

This page repeats the figures and tables of the paper's evaluation at the scale `{scale}` and
compares them with the paper's claims. It is generated from run folders by
`dynamite experiment results --scale {scale} --runs RUNS --out docs`.

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

| experiment | in the paper | claims that hold | that do not | not judged | that hold for feedback |
|---|---|---|---|---|---|
"""


def write_results(root: Path, scale: str, out: Path) -> tuple[list[str], list[str]]:
    """Write the page and its pictures.

    Returns:
        The names of the experiments that are on the page, and of those that were not run.

    Raises:
        JobError: No experiment was run. An existing page is not changed.
    """
    require_matplotlib()
    summaries = {name: summary for name in NAMES if (summary := _summary(name, scale, root))}
    if not summaries:
        raise JobError(
            f"{root / scale} has no finished run: choose another --runs or --scale, "
            f"or run `dynamite experiment {NAMES[0]} --scale {scale} --runs {root}` first"
        )
    (out / _PICTURES).mkdir(parents=True, exist_ok=True)
    for name, summary in summaries.items():
        write_atomically(out / _PICTURES / f"{name}.svg", figure_svg(summary))
    missing = [name for name in NAMES if name not in summaries]
    write_atomically(out / PAGE, _page(list(summaries.values()), missing, scale))
    return list(summaries), missing


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


def _page(summaries: list[Summary], missing: list[str], scale: str) -> str:
    text = _HEAD.format(scale=scale)
    for summary in summaries:
        link = f"[{summary.experiment.name}](#{_anchor(heading(summary))})"
        text += f"| {link} | `{summary.experiment.shows}` | {' | '.join(_counts(summary))} |\n"
    for name in missing:
        text += f"| {name} | `{load_experiment(name).shows}` | not run | | | |\n"
    for summary in summaries:
        text += "\n" + section(summary, f"{_PICTURES}/{summary.experiment.name}.svg", level=2)
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
