"""The command ``dynamite resume``."""

from typing import Annotated

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import DataDir, Engine, LastLine, RunPath

_EPILOG = """
[bold]Examples[/bold]

dynamite resume runs/tuesday

dynamite resume runs/from-python --task my_module:make_task  [dim]# started in Python[/dim]

Exit codes: 0 success, 2 the folder cannot be used, 130 interrupted.
"""


@app.command(epilog=_EPILOG)
def resume(
    folder: RunPath,
    data_dir: DataDir = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="The function that returns the task, if the run was started in Python.",
        ),
    ] = None,
    engine: Engine = "local",
    as_json: LastLine = False,
) -> None:
    """Continue an interrupted training, with the same result as without the interruption.

    If the run was started with --engine ray, use it again. Otherwise the rounding errors of small
    models differ.
    """
    from dynamite_fl._cli.train import train_simulated
    from dynamite_fl.job.runs import load_run
    from dynamite_fl.training.run_folder import RunFolder

    with errors(as_json):
        run = RunFolder(folder)
        job = load_run(run)
        run.check_same_devices(is_real=False)
        typer.echo(f"Going on in {folder}", err=as_json)

        train_simulated(job, run, data_dir, as_json, on_ray=engine == "ray", task=task)
