"""The command ``dynamite experiment``: one subcommand for each experiment, ``list``, ``results``.

What a command needs is imported when it runs, so that help comes at once.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import FAILED, INTERRUPTED, errors
from dynamite_fl._cli.options import DataDir, Json, Runs
from dynamite_fl.experiments import NAMES, title_of

if TYPE_CHECKING:
    from rich.console import Console

    from dynamite_fl.experiments.runs import ExperimentRuns
    from dynamite_fl.experiments.summary import Summary

experiment_app = typer.Typer(
    help="Reproduce the figures and tables of the paper, and check its claims.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog="[bold]Examples[/bold]\n\ndynamite experiment list\n\n"
    "dynamite experiment optimal-tau --data-dir ~/data\n\n"
    "dynamite experiment results --out docs",
)
app.add_typer(experiment_app, name="experiment")

_COLOURS = {"holds": "bold green", "does not hold": "bold red"}
_NOT_JUDGED = "yellow"
_EXPERIMENTS = Path("runs/experiments")
ScaleName = Literal["smoke", "laptop", "reduced", "paper"]
Scale = Annotated[
    ScaleName,
    typer.Option(
        help="The size: smoke takes seconds, laptop takes minutes, reduced, which has the paper's "
        "CNN but fewer rounds, takes hours, and paper, the published size, takes days."
    ),
]


@experiment_app.command(
    "list", epilog="[bold]Example[/bold]\n\ndynamite experiment list --json | jq '.[].name'"
)
def list_experiments(as_json: Json = False) -> None:
    """List the experiments, what each one shows, and its number of runs at each scale."""
    from dynamite_fl.experiments.experiment import SCALES, load_experiment

    experiments = [load_experiment(name) for name in NAMES]
    listed = [
        {
            "name": experiment.name,
            "title": experiment.title,
            "shows": experiment.shows,
            "runs": {scale: experiment.run_count(scale) for scale in SCALES},
        }
        for experiment in experiments
    ]
    if as_json:
        typer.echo(json.dumps(listed))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("experiment", no_wrap=True)
    table.add_column("shows")
    for scale in SCALES:
        table.add_column(scale, justify="right")
    for experiment in experiments:
        counts = [str(experiment.run_count(scale)) for scale in SCALES]
        table.add_row(experiment.name, f"{experiment.title} ({experiment.shows})", *counts)
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "The numbers count runs. Experiments that are alike share run folders.", style="dim"
    )


@experiment_app.command(
    epilog="[bold]Example[/bold]\n\ndynamite experiment results --scale laptop --out docs"
)
def results(
    scale: Scale = "laptop",
    also: Annotated[
        ScaleName | None,
        typer.Option(help="A second scale, whose runs are shown too as far as there are some."),
    ] = None,
    runs: Runs = _EXPERIMENTS,
    out: Annotated[
        Path, typer.Option("--out", help="The folder for results.md and its figures.")
    ] = Path("docs"),
) -> None:
    """Write a page about all experiments from their finished runs, without running anything.

    A section of an existing page stays as it is if fewer runs are at hand than it shows.
    """
    from dynamite_fl.experiments.results import PAGE, write_results

    with errors(as_json=False):
        written = write_results(runs, scale, out, also)
    shown = len(NAMES) - len(written.missing)
    typer.echo(f"{out / PAGE} shows {shown} of {len(NAMES)} experiments at the scale {scale}.")
    for title in written.renewed:
        typer.echo(f"Renewed: {title}")
    for title in written.kept:
        typer.echo(f"Kept as it was: {title}")
    if written.missing:
        typer.echo(f"Not run: {', '.join(written.missing)}")


_EPILOG = """
[bold]Examples[/bold]

dynamite experiment {name} --data-dir ~/data

dynamite experiment {name} --scale smoke --json | jq '.claims[].verdict'

To continue after an interruption, repeat the command: finished runs are kept.

Exit codes: 0 if all runs finished, 1 if a run failed, 2 if it cannot be run, 130 if interrupted.
"""


def _register(name: str) -> None:
    @experiment_app.command(
        name,
        help="Run this experiment, then write its figure, its data and a verdict on each claim.",
        short_help=title_of(name),
        epilog=_EPILOG.format(name=name),
    )
    def run(
        scale: Scale = "laptop",
        seeds: Annotated[
            int | None,
            typer.Option(min=1, help="The number of seeds, from 0. Default: depends on the scale."),
        ] = None,
        runs: Runs = _EXPERIMENTS,
        data_dir: DataDir = None,
        jobs: Annotated[int, typer.Option(min=1, help="The number of runs at the same time.")] = 2,
        as_json: Json = False,
    ) -> None:
        from dynamite_fl.experiments.experiment import load_experiment
        from dynamite_fl.experiments.runs import ExperimentRuns

        with errors(as_json):
            experiment = load_experiment(name)
            count = experiment.seeds_at(scale)
            _run(ExperimentRuns(experiment, scale, seeds or count, runs), data_dir, jobs, as_json)


for _name in NAMES:
    _register(_name)


def _run(runs: "ExperimentRuns", data_dir: Path | None, jobs: int, as_json: bool) -> None:
    """Run what is missing, then write and show the summary; exit with 1 if a run failed."""
    from rich.console import Console

    from dynamite_fl._cli.views.compare import CompareView, show_failures
    from dynamite_fl.experiments.runs import run_missing
    from dynamite_fl.experiments.summary import (
        require_matplotlib,
        summarize,
        to_json,
        write_summary,
    )

    require_matplotlib()
    with CompareView(Console(stderr=as_json, highlight=False)) as view:
        total = len(runs.all())
        view.more(total, finished=total - len(runs.waiting()))
        try:
            failures = run_missing(runs, data_dir, jobs, view)
        except KeyboardInterrupt:
            view.console.print(
                f"Interrupted. Finished work is in {runs.run_folders}. "
                "To continue, repeat the command.",
                markup=False,
                soft_wrap=True,
            )
            raise SystemExit(INTERRUPTED) from None
    summary = summarize(runs)
    if summary.charts:
        write_summary(summary)
    if as_json:
        typer.echo(json.dumps(to_json(summary), allow_nan=False))
    else:
        _show(Console(highlight=False), summary)
    failures |= summary.outcome.failures
    show_failures(Console(stderr=True, highlight=False), failures)
    if failures:
        raise SystemExit(FAILED)


def _show(console: "Console", summary: "Summary") -> None:
    """Show the numbers of an experiment and the verdicts on its claims."""
    from rich.text import Text

    from dynamite_fl.experiments.markdown import measured_in_words, reason_in_words

    console.print(summary.experiment.title, style="bold")
    for measure in summary.measures:
        _show_numbers(console, summary, measure)
    console.print("± one standard deviation over seeds\n", style="dim")
    for verdict in summary.verdicts:
        colour = _COLOURS.get(verdict.verdict, _NOT_JUDGED)
        line = Text.assemble((verdict.verdict, colour), f"  {verdict.says}")
        console.print(line, soft_wrap=True)
        console.print(Text(f"  {measured_in_words(verdict)}", style="dim"), soft_wrap=True)
        if verdict.because:
            reason = Text(f"  {reason_in_words(verdict)}", style="dim italic")
            console.print(reason, soft_wrap=True)
    console.print(f"figure, data and verdict: {summary.runs.folder}", soft_wrap=True)


def _show_numbers(console: "Console", summary: "Summary", measure: str) -> None:
    """Show a row for each panel and contender, so that the table fits any terminal."""
    from rich.table import Table

    from dynamite_fl.experiments.markdown import number_in_words
    from dynamite_fl.experiments.measures import MEASURES

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("panel")
    table.add_column("contender", no_wrap=True)
    table.add_column(MEASURES[measure].title, justify="right", no_wrap=True)
    for panel in summary.panels:
        title = summary.experiment.panels[panel].title
        for name, contender in summary.experiment.contenders.items():
            spread = summary.outcome.spread(panel, name, measure)
            table.add_row(title, contender.title, number_in_words(spread, measure))
            title = ""  # it is shown once
    console.print(table)
