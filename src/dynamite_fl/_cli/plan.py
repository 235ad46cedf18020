"""The command ``dynamite plan``."""

import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import INFEASIBLE, errors, fail
from dynamite_fl._cli.options import JobFile, Json, Overrides

if TYPE_CHECKING:
    from dynamite_fl.plan.alternatives import PlanReport

_HELP = """
Choose the local steps and each device's batch size for a deadline and a budget.

Finds the local steps and the batch size of every device that make the error bound smallest within \
a deadline and a cost budget. The result is exact.
"""

_EPILOG = """
[bold]Examples[/bold]

dynamite plan  [dim]# the embedded job, 20 devices[/dim]

dynamite plan job.toml  [dim]# your own job[/dim]

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
) -> None:
    """Plan a job and show the plan."""
    from rich.console import Console

    with errors(as_json):
        with Console(stderr=True).status("Planning"):
            report = _plan(job, overrides or [], csv_file, as_json)
        _show(report, as_json)


def _plan(
    path: Path | None, overrides: list[str], csv_file: Path | None, as_json: bool
) -> "PlanReport":
    from dynamite_fl._atomic import write_atomically
    from dynamite_fl.errors import JobError
    from dynamite_fl.job.planning import in_job_words, load_planning_job
    from dynamite_fl.plan.alternatives import report_plan, to_csv
    from dynamite_fl.plan.feasibility import Infeasible

    def warn(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"warning: {in_job_words(str(message))}", err=True)

    warnings.showwarning = warn
    job = load_planning_job(path, overrides)
    if csv_file is not None and csv_file.resolve() in (file.resolve() for file in job.files):
        raise JobError(f"--csv {csv_file} would replace a file that the job is read from")
    try:
        report = report_plan(job.fleet, job.limits, job.geometry)
    except Infeasible as error:
        details = {"misses": [vars(miss) for miss in error.misses], "rounds": error.rounds}
        fail(str(error), INFEASIBLE, as_json, {"infeasible": details})
    if csv_file is not None:
        write_atomically(csv_file, to_csv(report))
    return report


def _show(report: "PlanReport", as_json: bool) -> None:
    from rich.console import Console

    from dynamite_fl._cli.views.plan import show_plan
    from dynamite_fl.plan.alternatives import to_json

    if as_json:
        typer.echo(json.dumps(to_json(report), allow_nan=False))
    else:
        show_plan(Console(highlight=False), report)
    sys.stdout.flush()
