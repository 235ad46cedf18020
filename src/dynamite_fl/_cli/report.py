"""The command ``dynamite report``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import Json, RunPaths

_HELP = """
Write an HTML report about one training, or about several side by side.

The report shows metrics, decisions, devices, limits and what the controller learned, with the \
job that repeats the run. For a comparison it shows curves over seeds and the time and cost to \
reach the target. The file is self-contained and needs no network.
"""

_EPILOG = """
[bold]Examples[/bold]

dynamite report runs/tuesday  [dim]# writes runs/tuesday/report.html[/dim]

dynamite report runs/compare-2026-01-31-120000 --out comparison.html

dynamite report runs/tuesday runs/wednesday --out days.html

Exit codes: 0 success, 2 there is nothing to show.
"""


@app.command(help=_HELP, epilog=_EPILOG)
def report(
    folders: RunPaths,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file to write. Default: report.html in the folder, or in the current folder "
            "if there are several.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a report and say where it is."""
    from rich.console import Console

    from dynamite_fl._format import count
    from dynamite_fl.report.write import write_report

    with errors(as_json):
        with Console(stderr=True).status("Reading runs"):
            written = write_report(folders, out)
        if as_json:
            result = {"file": str(written.file), "runs": written.runs, "notes": written.notes}
            typer.echo(json.dumps(result))
            return
        for note in written.notes:
            typer.echo(f"note: {note}", err=True)
        typer.echo(f"The report of {count(written.runs, 'run')} is in {written.file}")
