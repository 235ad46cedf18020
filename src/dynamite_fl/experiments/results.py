"""``docs/results.md``: every experiment that was run, from its run folders."""

from collections.abc import Sequence
from pathlib import Path

from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.assess import Assessment, assess, figure, require_drawing
from dynamite_fl.experiments.claims import Judged
from dynamite_fl.experiments.markdown import section
from dynamite_fl.experiments.read import load_experiment
from dynamite_fl.experiments.runs import Plays
from dynamite_fl.files import write_atomically
from dynamite_fl.tables import JobError

PAGE = "results.md"
_PICTURES = "results"

_HEAD = """\
# Results

The figures and tables of the paper's evaluation, run again at the scale `{scale}`: ours beside
what the paper claims. Written by `{command}`
from run folders, not by hand.

- **DYNAMITE** is the paper's rule (controller `dynamite`), **feedback** our default
  (`dynamite-feedback`), which is not in the paper.
- Tables have means ± one standard deviation over seeds; ± in a verdict is one standard error. A
  difference counts only if it exceeds its standard error over seeds, contenders compared on the
  same seed; with two seeds that means that both agree. A claim *holds* if all comparisons do that
  were run, *does not hold* if one fails, and is *not at this scale* if none was measured; where all
  were on a single seed, that is the verdict: *one seed shows no spread*.
- *Likely why* is an explanation written with the experiment, not measured in these runs.
- Seconds are those of simulated devices and cost is in the job's units: neither depends on the
  machine that computes.

| experiment | the paper's | its claims hold | do not hold | not judged | hold of feedback |
|---|---|---|---|---|---|
"""


def write_results(runs: Path, scale: str, out: Path) -> tuple[list[str], list[str]]:
    """Write the page and its pictures; the names of what was run, and of what was not.

    Raises:
        JobError: Nothing was; what is there stays as it is.
    """
    require_drawing()
    done, missing = [], []
    for name in NAMES:
        found = _assessed(name, scale, runs)
        if found is None:
            missing.append(name)
        else:
            done.append(found)
    if not done:
        raise JobError(
            f"{runs / scale} has no finished run: choose another --runs or --scale, "
            f"or run `dynamite experiment {NAMES[0]} --scale {scale} --runs {runs}` first"
        )
    (out / _PICTURES).mkdir(parents=True, exist_ok=True)
    for each in done:
        write_atomically(out / _PICTURES / f"{each.experiment.name}.svg", figure(each))
    write_atomically(out / PAGE, _page(done, missing, scale))
    return [each.experiment.name for each in done], missing


def _assessed(name: str, scale: str, runs: Path) -> Assessment | None:
    """An experiment by the seeds that its folder has; None if there is nothing to show."""
    experiment = load_experiment(name)
    seeds = 0
    while Plays(experiment, scale, seeds + 1, runs).has_last_seed():
        seeds += 1
    if seeds == 0:
        return None
    found = assess(Plays(experiment, scale, seeds, runs))
    return found if found.rows else None


def _page(done: list[Assessment], missing: list[str], scale: str) -> str:
    command = f"dynamite experiment results --scale {scale} --runs RUNS --out docs"
    text = _HEAD.format(scale=scale, command=command)
    for each in done:
        name = each.experiment.name
        cells = " | ".join([*_counts(each.judged), _ours(each.judged)])
        text += f"| [{name}](#{_anchor(each)}) | `{each.experiment.shows}` | {cells} |\n"
    for name in missing:
        text += f"| {name} | `{load_experiment(name).shows}` | not run | | | |\n"
    for each in done:
        picture = f"{_PICTURES}/{each.experiment.name}.svg"
        text += "\n" + section(each, picture, level=2)
    return text


def _counts(judged: Sequence[Judged]) -> list[str]:
    """How many of the paper's own claims came to what."""
    words = [each.verdict for each in judged if not each.also]
    holds, fails = words.count("holds"), words.count("does not hold")
    return [str(count or "") for count in (holds, fails, len(words) - holds - fails)]


def _ours(judged: Sequence[Judged]) -> str:
    """How many of those that are asked of another hold of it."""
    words = [each.verdict for each in judged if each.also]
    return f"{words.count('holds')} of {len(words)}" if words else ""


def _anchor(assessment: Assessment) -> str:
    """The heading as GitHub links to it."""
    heading = f"{assessment.experiment.name}: {assessment.experiment.title}".lower()
    return "".join(c for c in heading.replace(" ", "-") if c.isalnum() or c in "-_")
