"""The command ``dynamite run``."""

from pathlib import Path

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import (
    DataDir,
    Engine,
    JobFile,
    LastLine,
    Name,
    Overrides,
    Runs,
    run_path,
)
from dynamite_fl.errors import RunFolderError

_HELP = """
Train a model across unequal devices within a deadline and a budget.

The devices are simulated, but they really train the model. Before every round, the controller \
chooses the local steps and each device's batch size from what it has learned so far. Everything \
is saved in the run folder. After an interruption, `dynamite resume` continues the run.
"""

_EPILOG = """
[bold]Examples[/bold]

dynamite run  [dim]# the embedded job: digits, ten devices[/dim]

dynamite run job.toml --name tuesday

dynamite run --set controller.name=fedavg --set limits.deadline=60

dynamite run --set 'task={model="cnn", dataset="mnist"}' --data-dir ~/data --set devices=vm20

dynamite run --set 'stream={preset="smooth-c", scale=0.01}'  [dim]# data that streams in[/dim]

RAY_ADDRESS=10.0.0.1:6379 dynamite run job.toml --engine ray  [dim]# on a Ray cluster[/dim]

Exit codes: 0 success, 2 the job cannot be used, 3 no round fits the limits, 130 interrupted.
"""


@app.command(help=_HELP, epilog=_EPILOG)
def run(
    job: JobFile = None,
    overrides: Overrides = None,
    name: Name = None,
    runs: Runs = Path("runs"),
    data_dir: DataDir = None,
    engine: Engine = "local",
    as_json: LastLine = False,
) -> None:
    """Run a job in a new run folder."""
    from datetime import datetime

    from dynamite_fl._cli.train import train_simulated
    from dynamite_fl.job.runs import load_job_file
    from dynamite_fl.training.run_folder import RunFolder

    with errors(as_json):
        folder = RunFolder(run_path(runs, name or f"{datetime.now():%Y-%m-%d-%H%M%S}"))
        if not folder.is_free:
            raise RunFolderError(
                f"{folder.path} exists already: choose another --name, or go on with "
                f"dynamite resume {folder.path}"
            )
        loaded = load_job_file(job, overrides or [])
        typer.echo(f"Training in {folder.path}", err=as_json)

        train_simulated(loaded, folder, data_dir, as_json, on_ray=engine == "ray")
