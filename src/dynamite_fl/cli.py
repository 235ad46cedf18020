"""The command ``dynamite``.

What a command needs is imported when it runs, so that help and errors come at once.
"""

import io
import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynamite_fl.experiment_cli import experiment_app
from dynamite_fl.flower_cli import flower_app
from dynamite_fl.options import (
    CANNOT_USE,
    INFEASIBLE,
    Data,
    Engine,
    JobFile,
    Json,
    LastLine,
    Name,
    Overrides,
    Runs,
    errors,
    fail,
)

if TYPE_CHECKING:
    from dynamite_fl.plan_report import PlanReport

app = typer.Typer(
    help="Federated learning that keeps to a deadline and a budget.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # bars and boxes on a terminal without them
    try:
        app(prog_name="dynamite")
    except OSError as error:  # the disk that output goes to is full, or the like
        sys.stderr.write(f"dynamite: output cannot be written: {error.strerror}\n")
        os._exit(CANNOT_USE)  # an ordinary exit would try to write it once more
    except KeyboardInterrupt:
        sys.exit(130)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dynamite {version('dynamite-fl')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    """Options that every command has."""


_PLAN_EPILOG = """
[bold]Examples[/bold]

dynamite plan  [dim]# the embedded job, 20 devices[/dim]

dynamite plan job.toml  [dim]# your own[/dim]

dynamite plan --set limits.deadline=2000  [dim]# another deadline[/dim]

dynamite plan --set limits.rounds=none  [dim]# choose the rounds too[/dim]

dynamite plan job.toml --set fleet=fleet.csv --csv batches.csv

dynamite plan job.toml --json | jq .local_steps

The keys of a job and how to write one are in the README.

Ends with 0, with 2 if the job cannot be used, with 3 if no plan keeps its limits.
"""


_PLAN_HELP = """
How many local steps, and which batch size on each device?

Finds the local steps and every device's own batch size that bring the error bound lowest \
within a deadline and a cost budget, exactly.
"""


@app.command(help=_PLAN_HELP, epilog=_PLAN_EPILOG)
def plan(
    job: JobFile = None,
    overrides: Overrides = None,
    as_json: Json = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a line for each client.")
    ] = None,
) -> None:
    """Plan a job and show the plan."""
    from rich.console import Console

    from dynamite_fl.plan_report import to_json
    from dynamite_fl.terminal import show_plan

    with Console(stderr=True).status("Planning"):
        report = _plan(job, overrides or [], csv_file, as_json)
    if as_json:
        typer.echo(json.dumps(to_json(report), allow_nan=False))
    else:
        show_plan(Console(highlight=False), report)
    sys.stdout.flush()


def _plan(
    path: Path | None, overrides: list[str], csv_file: Path | None, as_json: bool
) -> "PlanReport":
    """Plan a job; end the program, saying why, if that is not possible."""
    from dynamite_fl.config import JobError, in_job_words, load_job
    from dynamite_fl.files import write_atomically
    from dynamite_fl.plan.infeasible import Infeasible
    from dynamite_fl.plan_report import report_plan, to_csv

    def warn(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"warning: {in_job_words(str(message))}", err=True)

    warnings.showwarning = warn
    try:
        job = load_job(path, overrides)
        if csv_file is not None and csv_file.resolve() in (file.resolve() for file in job.files):
            raise JobError(f"--csv {csv_file} would replace the file that the job is read from")
        report = report_plan(job)
        if csv_file is not None:
            write_atomically(csv_file, to_csv(report))
    except Infeasible as error:
        details = {"misses": [vars(miss) for miss in error.misses], "rounds": error.rounds}
        fail(str(error), INFEASIBLE, as_json, {"infeasible": details})
    except ValueError as error:
        fail(in_job_words(str(error)), CANNOT_USE, as_json, {})
    except OSError as error:
        fail(f"{csv_file} cannot be written: {error.strerror}", CANNOT_USE, as_json, {})
    return report


_RUN_HELP = """
Train a model across unequal devices, within a deadline and a budget.

Devices are simulated, what they compute is real. Every round the controller chooses the local \
steps and each device's own batch size from what it has seen so far. All is kept in a folder, \
from which `dynamite resume` goes on after any interruption.
"""

_RUN_EPILOG = """
[bold]Examples[/bold]

dynamite run  [dim]# the embedded job: digits, ten devices[/dim]

dynamite run job.toml --name tuesday

dynamite run --set controller.name=fedavg --set limits.deadline=60

dynamite run --set 'task={model="cnn", dataset="mnist"}' --data-dir ~/data --set devices=vm20

dynamite run --set 'stream={preset="smooth-c", scale=0.01}'  [dim]# data that streams in[/dim]

RAY_ADDRESS=10.0.0.1:6379 dynamite run job.toml --engine ray  [dim]# computed by a cluster[/dim]

Ends with 0, with 2 if the job cannot be used, with 3 if no round keeps its limits, with 130 if \
interrupted.
"""


@app.command(help=_RUN_HELP, epilog=_RUN_EPILOG)
def run(
    job: JobFile = None,
    overrides: Overrides = None,
    name: Name = None,
    runs: Runs = Path("runs"),
    data_dir: Data = None,
    engine: Engine = "local",
    as_json: LastLine = False,
) -> None:
    """Train by a job."""
    from datetime import datetime

    from dynamite_fl.run_command import start_run

    stamp = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    with errors(as_json):
        path = runs / (name or stamp)
        start_run(path, job, overrides or [], data_dir, as_json, on_ray=engine == "ray")


@app.command(epilog="[bold]Example[/bold]\n\ndynamite resume runs/tuesday")
def resume(
    folder: Annotated[Path, typer.Argument(help="A run's folder.")],
    data_dir: Data = None,
    engine: Engine = "local",
    as_json: LastLine = False,
) -> None:
    """Go on with a training that was interrupted, to the very result it would have had.

    A training on Ray goes on there, with --engine ray: elsewhere small models round differently.
    """
    from dynamite_fl.run_command import resume_run

    with errors(as_json):
        resume_run(folder, data_dir, as_json, on_ray=engine == "ray")


@app.command(epilog="[bold]Example[/bold]\n\ndynamite show runs/tuesday --json")
def show(
    folder: Annotated[Path, typer.Argument(help="A run's folder.")],
    as_json: LastLine = False,
) -> None:
    """What a training reached and spent."""
    from dynamite_fl.run_command import show_run

    with errors(as_json):
        show_run(folder, as_json)


_REPORT_HELP = """
Write one HTML file about a training, or about several side by side.

It shows accuracy, decisions, devices, limits and what the controller learned, with the job to \
repeat it; of a comparison, curves over seeds and what it took to reach the target. The file needs \
no network and nothing beside it.
"""

_REPORT_EPILOG = """
[bold]Examples[/bold]

dynamite report runs/tuesday  [dim]# writes runs/tuesday/report.html[/dim]

dynamite report runs/compare-2026-01-31-120000 --out comparison.html

dynamite report runs/tuesday runs/wednesday --out days.html

Ends with 0, with 2 if there is nothing to show.
"""


@app.command(help=_REPORT_HELP, epilog=_REPORT_EPILOG)
def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or of a comparison.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where to; else report.html in the folder, here if several."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a report."""
    from dynamite_fl.report_command import report as write_and_tell

    with errors(as_json):
        write_and_tell(folders, out, as_json)


_COMPARE_HELP = """
Train by several controllers on the same job and limits, and show them side by side.

Each controller is run with each seed, in a folder of its own below the comparison's. Repeat \
the command with the same --name after an interruption: what is finished is kept.
"""

_COMPARE_EPILOG = """
[bold]Examples[/bold]

dynamite compare  [dim]# the embedded job, three seeds[/dim]

dynamite compare job.toml --controllers dynamite,fedavg,no-straggler --seeds 5 --name tuesday

dynamite compare stream.toml --controllers dynamite,fedavg --buffers reservoir,fifo

dynamite compare --target 0.9 --json | jq '.controllers[].seconds_to_target.mean'

dynamite compare --controllers dynamite --hindsight  [dim]# against the best fixed settings[/dim]

Ends with 0, with 1 if a run failed, with 2 if the job cannot be used, with 130 if interrupted.
"""


@app.command(help=_COMPARE_HELP, epilog=_COMPARE_EPILOG)
def compare(
    job: JobFile = None,
    overrides: Overrides = None,
    controllers: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Which; without it, all but fixed."),
    ] = None,
    buffers: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...", help="Each controller with each: reservoir, random, fifo, unbounded."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many, from the job's on.")] = 3,
    target: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="The accuracy to reach; without it, FedAvg's mean at its end."
        ),
    ] = None,
    hindsight: Annotated[
        bool,
        typer.Option("--hindsight", help="Try fixed local steps and batch sizes too: the best."),
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", help="The comparison's folder below runs/.")
    ] = None,
    runs: Runs = Path("runs"),
    data_dir: Data = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs at a time.")] = 2,
    as_json: Json = False,
) -> None:
    """Train by several controllers."""
    from datetime import datetime

    from dynamite_fl.compare_command import Request
    from dynamite_fl.compare_command import compare as compare_all
    from dynamite_fl.run_config import load_training_job

    stamp = datetime.now().strftime("compare-%Y-%m-%d-%H%M%S")
    with errors(as_json):
        request = Request(
            job=load_training_job(job, overrides or []),
            controllers=_listed(controllers),
            buffers=_listed(buffers),
            seeds=seeds,
            target=target,
            hindsight=hindsight,
            folder=runs / (name or stamp),
            data_dir=data_dir,
            jobs=jobs,
        )
        compare_all(request, as_json)


def _listed(words: str | None) -> list[str] | None:
    return None if words is None else [each.strip() for each in words.split(",")]


app.add_typer(experiment_app, name="experiment")
app.add_typer(flower_app)
