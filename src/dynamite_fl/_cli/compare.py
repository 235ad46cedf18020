"""The command ``dynamite compare``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import FAILED, INTERRUPTED, errors
from dynamite_fl._cli.options import DataDir, JobFile, Json, Overrides, Runs, run_path

if TYPE_CHECKING:
    from dynamite_fl.compare.comparison import ComparisonRequest

_HELP = """
Train with several controllers on the same job and limits, and show the results side by side.

Each controller is run with each seed. The comparison's folder holds a run folder for each run. \
To continue after an interruption, repeat the command with the same --name: finished runs are kept.

--tune and --hindsight try many settings on the first seed, and the best two on the other seeds. \
The mean over all seeds decides, so what is tuned is tuned with the seeds that are shown. No \
controller has this advantage. A trial that diverges counts as the worst.
"""

_EPILOG = """
[bold]Examples[/bold]

dynamite compare  [dim]# the embedded job, three seeds[/dim]

dynamite compare job.toml --controllers dynamite,fedavg,no-straggler --seeds 5 --name tuesday

dynamite compare job.toml --controllers dynamite-feedback,my_module:MyController

dynamite compare stream.toml --controllers dynamite,fedavg --buffers reservoir,fifo

dynamite compare --target 0.9 --json | jq '.controllers[].seconds_to_target.mean'

dynamite compare --controllers fedavg@0.1,fedavg@0.3,fedadam@0.1x0.01  [dim]# at given rates[/dim]

dynamite compare --controllers dynamite --tune fedavg,fedavgm,fedadam,fedexp  [dim]# tuned[/dim]

dynamite compare --controllers dynamite --hindsight  [dim]# against the best fixed setting[/dim]

Exit codes: 0 success, 1 a run failed, 2 the job cannot be used, 130 interrupted.
"""


@app.command(help=_HELP, epilog=_EPILOG)
def compare(
    job: JobFile = None,
    overrides: Overrides = None,
    controllers: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Controllers to compare. Default: all except `fixed`. fedavgm, fedadam, fedyogi "
            "and fedexp are FedAvg with that server optimiser. NAME@RATE has a learning rate of "
            "its own, and NAME@RATExRATE another one for the server.",
        ),
    ] = None,
    buffers: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Buffers to run each controller with: reservoir, random, fifo, unbounded.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="The number of seeds. The first one is the job's seed.")
    ] = 3,
    target: Annotated[
        float | None,
        typer.Option(
            help="The value of the leading metric to reach. Default: FedAvg's mean at the end."
        ),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Methods to run at many rates and to show at their best one, in hindsight: "
            "fedavg, fedavgm, fedadam, fedyogi, fedexp, or any controller.",
        ),
    ] = None,
    hindsight: Annotated[
        bool,
        typer.Option(
            "--hindsight",
            help="Also search for the best fixed learning rate, local steps and batch size, and "
            "show which share of the way from FedAvg at its best rate to it controllers cover.",
        ),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", help="The name of the comparison's folder. Default: compare- and the date."
        ),
    ] = None,
    runs: Runs = Path("runs"),
    data_dir: DataDir = None,
    jobs: Annotated[int, typer.Option(min=1, help="The number of runs at the same time.")] = 2,
    as_json: Json = False,
) -> None:
    """Compare controllers and show the result."""
    from datetime import datetime

    from rich.console import Console

    from dynamite_fl.job.runs import load_job_file

    with errors(as_json):
        folder = run_path(runs, name or f"{datetime.now():compare-%Y-%m-%d-%H%M%S}")
        loaded = load_job_file(job, overrides or [])
        typer.echo(f"Comparing in {folder}", err=True)

        with Console(stderr=True).status("Loading PyTorch"):
            from dynamite_fl.compare.comparison import ComparisonRequest

        request = ComparisonRequest(
            job=loaded,
            controllers=_listed(controllers),
            buffers=_listed(buffers),
            seeds=seeds,
            target=target,
            tune=_listed(tune) or (),
            hindsight=hindsight,
            folder=folder,
            data_dir=data_dir,
            jobs=jobs,
        )
        _compare_and_show(request, as_json)


def _compare_and_show(request: "ComparisonRequest", as_json: bool) -> None:
    """Compare, show the result, and exit with 1 if a run failed."""
    from rich.console import Console

    from dynamite_fl._cli.views.compare import CompareView, show_comparison, show_failures
    from dynamite_fl._json import json_ready
    from dynamite_fl.compare.comparison import compare as compare_all

    console = Console(stderr=as_json, highlight=False)
    try:
        with CompareView(console) as view:
            comparison = compare_all(request, view)
    except KeyboardInterrupt:
        console.print(
            f"Interrupted. Finished rounds are kept in {request.folder}. To go on, repeat the "
            f"command with --name {request.folder.name}",
            markup=False,
            soft_wrap=True,
        )
        raise SystemExit(INTERRUPTED) from None
    if as_json:
        typer.echo(json.dumps(json_ready(comparison.to_json()), allow_nan=False))
    else:
        show_comparison(Console(highlight=False), comparison)
    show_failures(Console(stderr=True, highlight=False), comparison.failures)
    if comparison.failures:
        raise SystemExit(FAILED)


def _listed(words: str | None) -> list[str] | None:
    return None if words is None else [word.strip() for word in words.split(",")]
