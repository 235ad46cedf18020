"""``docs/results.md``: one page about all experiments, written from the records of their runs.

An existing page is renewed section by section. A section stays as it is if there are no records of
its experiment, or of fewer runs than it shows.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynamite_fl._atomic import write_atomically
from dynamite_fl.errors import JobError
from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.experiment import Experiment, load_experiment
from dynamite_fl.experiments.markdown import finished_in_section, heading, section
from dynamite_fl.experiments.runs import ExperimentRuns, is_finished
from dynamite_fl.experiments.summary import Summary, figure_svg, require_matplotlib, summarize

PAGE = "results.md"
_SCALE_WITHOUT_ENDING = "laptop"  # in the names of figures
_PICTURES = "results"

_HEAD = """\
# Results

This page repeats the figures and tables of the paper's evaluation and compares them with the
paper's claims. It is generated from the records of finished runs, `docs/results/records`, by
`dynamite experiment results {options} --runs docs/results/records`.
Sections whose records are not there stay as they are.

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


@dataclass(frozen=True)
class Written:
    """What a page shows.

    Attributes:
        renewed: The headings of the sections that were made from records.
        kept: The headings of the sections that stay as they were.
        missing: The experiments that were not run at the first scale.
    """

    renewed: Sequence[str]
    kept: Sequence[str]
    missing: Sequence[str]


@dataclass(frozen=True)
class _Section:
    """A section of the page, and its line in the table at the top."""

    line: str
    text: str


def write_results(root: Path, scale: str, out: Path, also: str | None = None) -> Written:
    """Write the page and its pictures.

    Args:
        root: The folder of all experiments.
        scale: The scale to show.
        out: The folder of the page.
        also: A second scale. Experiments that were run at it are shown at that scale too.

    Raises:
        JobError: No experiment was run. An existing page is not changed.
    """
    require_matplotlib()
    scales, page = [scale] if also is None else [scale, also], out / PAGE
    kept = _sections(page.read_text(encoding="utf-8")) if page.is_file() else {}
    summaries = _newer(root, scales, kept)
    if not summaries:
        raise JobError(
            f"{root / scale} has no finished run that is not on the page: choose another --runs or "
            f"--scale, or run `dynamite experiment {NAMES[0]} --scale {scale} --runs {root}` first"
        )
    (out / _PICTURES).mkdir(parents=True, exist_ok=True)
    renewed = {}
    for title, summary in summaries.items():
        picture = _picture(summary)
        write_atomically(out / picture, figure_svg(summary))
        renewed[title] = _Section(_line(summary), section(summary, picture, level=2))
    sections = {**kept, **renewed}
    order = [heading(load_experiment(name), each) for each in scales for name in NAMES]
    shown = [title for title in dict.fromkeys([*order, *sections]) if title in sections]
    missing = [name for name, title in zip(NAMES, order, strict=False) if title not in sections]
    write_atomically(page, _page([sections[title] for title in shown], missing, scales))
    return Written(list(renewed), [title for title in shown if title not in renewed], missing)


def _newer(root: Path, scales: Sequence[str], kept: Mapping[str, _Section]) -> dict[str, Summary]:
    """Return the experiments that have records of at least as many runs as the page shows.

    Args:
        root: The folder of all experiments.
        scales: The scales to look at.
        kept: The sections of the page by their headings.

    Returns:
        The summaries by the headings of their sections.
    """
    summaries = {}
    for scale in scales:
        for experiment in map(load_experiment, NAMES):
            title, summary = heading(experiment, scale), _summary(experiment, scale, root)
            runs = finished_in_section(kept[title].text) if title in kept else 0
            if summary is not None and summary.outcome.finished >= runs:
                summaries[title] = summary
    return summaries


def _sections(page: str) -> dict[str, _Section]:
    """Return the sections of a page by their headings; those without a line are left out."""
    top, *texts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    lines = {
        anchor: line
        for line in top.splitlines(keepends=True)
        for anchor in re.findall(r"^\| \[[^]]*\]\(#([^)]*)\)", line)
    }
    titles = [text.splitlines()[0].removeprefix("## ") for text in texts]
    return {
        title: _Section(lines[_anchor(title)], f"{text.rstrip()}\n")
        for title, text in zip(titles, texts, strict=True)
        if _anchor(title) in lines
    }


def _summary(experiment: Experiment, scale: str, root: Path) -> Summary | None:
    """Return an experiment's summary with the seeds that it was run with; None if it was not."""
    seeds = 0
    while any(
        is_finished(run) and run.seed == seeds
        for run in ExperimentRuns(experiment, scale, seeds + 1, root).all()
    ):
        seeds += 1
    summary = summarize(ExperimentRuns(experiment, scale, seeds, root))
    return summary if summary.charts else None


def _picture(summary: Summary) -> str:
    """Return the path of a figure, relative to the page; each scale has its own."""
    scale = summary.runs.scale
    ending = "" if scale == _SCALE_WITHOUT_ENDING else f"-{scale}"
    return f"{_PICTURES}/{summary.experiment.name}{ending}.svg"


def _line(summary: Summary) -> str:
    """Return an experiment's line in the table at the top."""
    experiment, scale = summary.experiment, summary.runs.scale
    link = f"[{experiment.name}](#{_anchor(heading(experiment, scale))})"
    return f"| {' | '.join([link, scale, f'`{experiment.shows}`', *_counts(summary)])} |\n"


def _page(sections: Sequence[_Section], missing: Sequence[str], scales: Sequence[str]) -> str:
    text = _HEAD.format(options=" --also ".join([f"--scale {scales[0]}", *scales[1:]]))
    text += "".join(each.line for each in sections)
    for name in missing:
        text += f"| {name} | {scales[0]} | `{load_experiment(name).shows}` | not run | | | |\n"
    return text + "".join(f"\n{each.text}" for each in sections)


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
