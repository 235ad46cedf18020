"""What ``dynamite experiment`` does."""

import json
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dynamite_fl.compare_runs import play_all
from dynamite_fl.compare_view import CompareView, show_failures
from dynamite_fl.experiments import NAMES, origin
from dynamite_fl.experiments.assess import Assessment, assess, require_drawing, to_json, write
from dynamite_fl.experiments.experiment import SCALES
from dynamite_fl.experiments.markdown import in_words, likely, measured_in_words
from dynamite_fl.experiments.measures import MEASURES
from dynamite_fl.experiments.read import load_experiment
from dynamite_fl.experiments.runs import Plays
from dynamite_fl.run_command import INTERRUPTED
from dynamite_fl.run_config import make_training

_SOME_FAILED = 1
_COLOURS = {"holds": "bold green", "does not hold": "bold red"}
_NOT_JUDGED = "yellow"


def list_experiments(as_json: bool) -> None:
    """All experiments: what each shows, and how many runs it has at each scale."""
    found = [load_experiment(name) for name in NAMES]
    sizes = {
        each.name: {
            scale: each.seeds[scale] * len(each.panels_at(scale)) * len(each.contenders)
            for scale in SCALES
        }
        for each in found
    }
    if as_json:
        listed = [
            {"name": x.name, "title": x.title, "shows": x.shows, "runs": sizes[x.name]}
            for x in found
        ]
        print(json.dumps(listed))  # noqa: T201
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("experiment", "shows"):
        table.add_column(heading, no_wrap=heading == "experiment")
    for scale in SCALES:
        table.add_column(scale, justify="right")
    for each in found:
        runs = [str(sizes[each.name][scale] or "-") for scale in SCALES]
        table.add_row(each.name, f"{each.title} ({each.shows})", *runs)
    console = Console(highlight=False)
    console.print(table)
    console.print("numbers are of runs; experiments that are alike share them", style="dim")


def run_experiment(plays: Plays, data_dir: Path | None, jobs: int, as_json: bool) -> None:
    """Play what is not finished, then write and show; ends the program with 1 if a run failed."""
    require_drawing()
    torch.set_num_threads(1)
    console = Console(stderr=as_json, highlight=False)
    parts = plays.parts()
    if not parts:
        raise ValueError(f"{plays.experiment.name} has no panel at the scale {plays.scale}")
    waiting = [part.run for part in parts if not part.run.is_finished]
    if waiting:
        make_training(waiting[0].job, data_dir)  # what is wrong shows before all
    now = origin.here_and_now()
    for run in waiting:
        origin.record(run.path, now)
    with CompareView(console) as view:
        view.more(len(parts), finished=len(parts) - len(waiting))
        try:
            plays.ask_theorem(data_dir)
            failures = play_all(waiting, data_dir, jobs, view)
        except KeyboardInterrupt:
            console.print(
                f"Interrupted. What is done is in {plays.pool}. To go on, repeat the command.",
                markup=False,
                soft_wrap=True,
            )
            raise SystemExit(INTERRUPTED) from None
    assessment = assess(plays)
    if assessment.rows:
        write(assessment)
    _show(assessment, as_json)
    failures |= assessment.gathered.failures
    show_failures(Console(stderr=True, highlight=False), failures)
    if failures:
        raise SystemExit(_SOME_FAILED)


def _show(assessment: Assessment, as_json: bool) -> None:
    if as_json:
        print(json.dumps(to_json(assessment), allow_nan=False))  # noqa: T201
        return
    console = Console(highlight=False)
    console.print(f"[bold]{assessment.experiment.title}[/bold]")
    for measure in assessment.measures:
        console.print(_numbers(assessment, measure))
    console.print("± one standard deviation over seeds\n", style="dim")
    for judged in assessment.judged:
        line = Text.assemble(
            (judged.verdict, _COLOURS.get(judged.verdict, _NOT_JUDGED)), f"  {judged.says}"
        )
        console.print(line, soft_wrap=True)
        console.print(Text(f"  {measured_in_words(judged)}", style="dim"), soft_wrap=True)
        if judged.because:
            console.print(Text(f"  {likely(judged)}", style="dim italic"), soft_wrap=True)
    console.print(f"figure, data and verdict: {assessment.plays.folder}", soft_wrap=True)


def _numbers(assessment: Assessment, measure: str) -> Table:
    """A row for each panel and contender: narrow enough for any terminal."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("panel")
    table.add_column("contender", no_wrap=True)
    table.add_column(MEASURES[measure].title, justify="right", no_wrap=True)
    experiment = assessment.experiment
    for panel in experiment.panels_at(assessment.plays.scale):
        for place, (name, contender) in enumerate(experiment.contenders.items()):
            spread = assessment.spread(panel, name, measure)
            text = "-" if spread is None else in_words(spread, measure)
            title = "" if place else experiment.panels[panel].title
            table.add_row(title, contender.title, text)
    return table
