"""The command ``dynamite show``."""

from typing import TYPE_CHECKING

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import LastLine, RunPath

if TYPE_CHECKING:
    from dynamite_fl.training.run_folder import RunFolder


@app.command(epilog="[bold]Example[/bold]\n\ndynamite show runs/tuesday --json")
def show(folder: RunPath, as_json: LastLine = False) -> None:
    """Show the metrics that a training has reached, and its time and cost."""
    from dynamite_fl.training.run_folder import RunFolder

    with errors(as_json):
        show_run(RunFolder(folder), as_json)


def show_run(folder: "RunFolder", as_json: bool) -> None:
    """Print a run's summary, or the last line of its history as JSON."""
    from rich.console import Console

    from dynamite_fl._cli.views.run import show_summary
    from dynamite_fl.job.runs import load_run
    from dynamite_fl.report.read_job import device_names
    from dynamite_fl.training.history import read_history

    job = load_run(folder)
    history = read_history(folder.history)
    if as_json:
        typer.echo(history[-1].to_line() if history else "{}\n", nl=False)
        return
    title, devices = f"{job.controller_name}, {folder.path}", device_names(folder, job)
    console = Console(highlight=False)
    show_summary(console, title, history, job.limits, folder.stopped_by(), devices)
