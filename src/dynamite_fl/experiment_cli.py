"""The command ``dynamite experiment``: one command for each figure, and two for all."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dynamite_fl.experiments import NAMES, title_of
from dynamite_fl.options import Data, Json, Runs, errors

experiment_app = typer.Typer(
    help="The paper's figures and tables by name: ours, beside what it claims.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog="[bold]Examples[/bold]\n\ndynamite experiment list\n\n"
    "dynamite experiment optimal-tau --data-dir ~/data\n\n"
    "dynamite experiment results --out docs",
)

_EXPERIMENTS = Path("runs/experiments")
Scale = Annotated[
    Literal["smoke", "laptop", "paper"],
    typer.Option(help="For seconds, for minutes, or as the paper has it, for days."),
]


@experiment_app.command("list")
def list_all(as_json: Json = False) -> None:
    """Which experiments there are, what each shows, and how many runs it has."""
    from dynamite_fl.experiments.command import list_experiments

    with errors(as_json):
        list_experiments(as_json)


@experiment_app.command(
    epilog="[bold]Example[/bold]\n\ndynamite experiment results --scale laptop --out docs"
)
def results(
    scale: Scale = "laptop",
    runs: Runs = _EXPERIMENTS,
    out: Annotated[Path, typer.Option("--out", help="Where results.md goes.")] = Path("docs"),
) -> None:
    """Write one page of all that was run, with pictures, from run folders; nothing is played."""
    from dynamite_fl.experiments.results import PAGE, write_results

    with errors(as_json=False):
        done, missing = write_results(runs, scale, out)
    typer.echo(f"{out / PAGE}: {len(done)} experiments")
    if missing:
        typer.echo(f"not run: {', '.join(missing)}")


_EPILOG = """
[bold]Examples[/bold]

dynamite experiment {name} --data-dir ~/data

dynamite experiment {name} --scale smoke --json | jq '.claims[].verdict'

Repeat the command after an interruption: what is finished is kept.

Ends with 0, with 1 if a run failed, with 2 if it cannot be run, with 130 if interrupted.
"""


def _register(name: str) -> None:
    @experiment_app.command(
        name,
        help="Run it, then write its figure, its data and a verdict on each claim of the paper.",
        short_help=title_of(name),
        epilog=_EPILOG.format(name=name),
    )
    def play(
        scale: Scale = "laptop",
        seeds: Annotated[
            int | None, typer.Option(min=1, help="How many, from 0; else as the scale has.")
        ] = None,
        runs: Runs = _EXPERIMENTS,
        data_dir: Data = None,
        jobs: Annotated[int, typer.Option(min=1, help="How many runs at a time.")] = 2,
        as_json: Json = False,
    ) -> None:
        from dynamite_fl.experiments.command import run_experiment
        from dynamite_fl.experiments.read import load_experiment
        from dynamite_fl.experiments.runs import Plays

        with errors(as_json):
            experiment = load_experiment(name)
            count = seeds or experiment.seeds[scale]
            run_experiment(Plays(experiment, scale, count, runs), data_dir, jobs, as_json)


for _name in NAMES:
    _register(_name)
