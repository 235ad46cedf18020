"""The command ``dynamite plan``."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import INFEASIBLE, errors, fail
from dynamite_fl._cli.options import DataDir, JobFile, Json, Overrides
from dynamite_fl.errors import JobError

if TYPE_CHECKING:
    from rich.status import Status

    from dynamite_fl.job.planning import PlanningJob
    from dynamite_fl.plan.alternatives import PlanReport

_HELP = """
Choose the local steps and each device's batch size for a deadline and a budget.

Finds the local steps and the batch size of every device that make the error bound smallest within \
a deadline and a cost budget. The result is exact.

The job is a training job, or a planning job for a fleet whose data is not at hand. For a training \
job, the devices have their nominal speeds, and --pilot measures the loss in a few rounds.
"""

_EPILOG = """
[bold]Examples[/bold]

dynamite plan  [dim]# the embedded job, 20 devices[/dim]

dynamite plan job.toml  [dim]# your own job[/dim]

dynamite plan job.toml --pilot  [dim]# a training job, with the loss measured[/dim]

dynamite plan --set limits.deadline=2000  [dim]# another deadline[/dim]

dynamite plan --set limits.rounds=none  [dim]# choose the number of rounds too[/dim]

dynamite plan job.toml --set fleet=fleet.csv --csv batches.csv

dynamite plan job.toml --json | jq .local_steps

docs/plan.md describes the keys of a job.

Exit codes: 0 success, 2 the job cannot be used, 3 no plan keeps the limits.
"""


@app.command(help=_HELP, epilog=_EPILOG)
def plan(
    job: JobFile = None,
    overrides: Overrides = None,
    as_json: Json = False,
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write one line per client to a CSV file."),
    ] = None,
    pilot: Annotated[
        bool,
        typer.Option("--pilot", help="Measure the loss of a training job in a short pilot run."),
    ] = False,
    pilot_rounds: Annotated[
        int, typer.Option(min=1, help="The number of rounds of the pilot run.")
    ] = 5,
    data_dir: DataDir = None,
) -> None:
    """Plan a job and show the plan."""
    from rich.console import Console

    with errors(as_json):
        with Console(stderr=True).status("Reading the job") as status, _refusals(as_json):
            trial = pilot_rounds if pilot else None
            planning = _read(job, overrides or [], trial, data_dir, status)
            status.update("Planning")
            report = _plan(planning, csv_file)
        _show(report, planning.notes, as_json)


@contextmanager
def _refusals(as_json: bool) -> Iterator[None]:
    """End with all details if no plan keeps the limits."""
    from dynamite_fl.plan.feasibility import Infeasible

    try:
        yield
    except Infeasible as error:
        details = {"misses": [vars(miss) for miss in error.misses], "rounds": error.rounds}
        fail(str(error), INFEASIBLE, as_json, {"infeasible": details})


def _read(
    path: Path | None,
    overrides: list[str],
    pilot_rounds: int | None,
    data_dir: Path | None,
    status: "Status",
) -> "PlanningJob":
    """Read a planning job, or a training job with the planner's numbers for it."""
    from dynamite_fl.job.planning import in_job_words, is_planning_job, load_planning_job

    def warn(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"warning: {in_job_words(str(message))}", err=True)

    warnings.showwarning = warn
    if path is None and pilot_rounds is None:
        return load_planning_job(path, overrides)
    if path is not None and is_planning_job(path):
        if pilot_rounds is not None:
            raise JobError("--pilot needs a training job: this one has no task to measure")
        return load_planning_job(path, overrides)
    from dynamite_fl.job.runs import load_job_file

    job = load_job_file(path, overrides)
    status.update("Loading the model and the data")
    from dynamite_fl.job.plan_training import plan_training_job

    if pilot_rounds is not None:
        status.update("Measuring the loss in a pilot run")
    planning = plan_training_job(job, data_dir, pilot_rounds)
    return replace(planning, files=() if path is None else (path,))


def _plan(job: "PlanningJob", csv_file: Path | None) -> "PlanReport":
    from dynamite_fl._atomic import write_atomically
    from dynamite_fl.plan.alternatives import report_plan, to_csv

    if csv_file is not None and csv_file.resolve() in (file.resolve() for file in job.files):
        raise JobError(f"--csv {csv_file} would replace a file that the job is read from")
    report = report_plan(job.fleet, job.limits, job.geometry)
    if csv_file is not None:
        write_atomically(csv_file, to_csv(report))
    return report


def _show(report: "PlanReport", notes: tuple[str, ...], as_json: bool) -> None:
    from rich.console import Console

    from dynamite_fl._cli.views.plan import show_plan
    from dynamite_fl.plan.alternatives import to_json

    if as_json:
        typer.echo(json.dumps({**to_json(report), "notes": notes}, allow_nan=False))
    else:
        show_plan(Console(highlight=False), report, notes)
    sys.stdout.flush()
