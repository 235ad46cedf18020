"""The command ``dynamite serve``: train on real machines."""

import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import DataDir, JobFile, LastLine, Overrides, Runs, run_path
from dynamite_fl._format import count

if TYPE_CHECKING:
    from dynamite_fl._progress import RunView
    from dynamite_fl.flower.superlink import SuperLink
    from dynamite_fl.flower.waiting import WaitStatus
    from dynamite_fl.job.training import TrainingJob
    from dynamite_fl.task.task import Task
    from dynamite_fl.training.run_folder import RunFolder

_EPILOG = """
[bold]Examples[/bold]

dynamite serve job.toml --name tuesday  [dim]# for nodes on this machine[/dim]

dynamite serve job.toml --name tuesday --host 0.0.0.0 --keys keys/server

After an interruption, repeat the command to continue. docs/deploy.md describes every step.
"""

RunName = Annotated[str, typer.Option("--name", help="The name of the run folder.")]
MinNodes = Annotated[int, typer.Option(min=1, help="The number of nodes that a round needs.")]
Wait = Annotated[
    float, typer.Option(min=0, help="The longest wait for nodes to connect, in seconds.")
]


@app.command(epilog=_EPILOG)
def serve(
    name: RunName,
    job: JobFile = None,
    overrides: Overrides = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free port.")
    ] = 9092,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="The server's folder made by `dynamite keys`. Default: accept only nodes on this "
            "machine."
        ),
    ] = None,
    min_nodes: MinNodes = 2,
    wait: Wait = 300.0,
    runs: Runs = Path("runs"),
    data_dir: DataDir = None,
    as_json: LastLine = False,
) -> None:
    """Train on real machines: wait for nodes to connect, then train with them.

    The job's devices determine only the number of nodes. The speed of each node is measured.
    """
    with errors(as_json, extra="flower"):
        from dynamite_fl._cli.show import show_run
        from dynamite_fl._cli.train import open_view
        from dynamite_fl.training.run_folder import RunFolder

        folder = RunFolder(run_path(runs, name))
        with sigterm_as_interrupt(), open_view(folder, as_json) as view:
            from dynamite_fl.flower.keys import read_server_keys
            from dynamite_fl.flower.serve import open_job, open_superlink
            from dynamite_fl.job.runs import opened_run
            from dynamite_fl.task.fingerprint import fingerprint

            server_keys = None if keys is None else read_server_keys(keys)
            training_job = open_job(folder, job, overrides or [])
            if not folder.is_finished:
                task = prepare_task(training_job, data_dir, view)
                with (
                    opened_run(folder, training_job, fingerprint(task), task.leading_metric),
                    open_superlink(folder, host, port, server_keys) as link,
                ):
                    audience = (
                        "this machine only; use --keys to serve others"
                        if server_keys is None
                        else f"{count(len(server_keys.node_keys), 'node')} with keys, over TLS"
                    )
                    tell(view, f"Listening at {host}, port {link.port}, for {audience}.")
                    if server_keys is not None:
                        _warn_of_few_keys(training_job, len(server_keys.node_keys), wait)
                    train_with_nodes(
                        training_job, task, folder, link, view, min_nodes=min_nodes, wait=wait
                    )
        show_run(folder, as_json)


def _warn_of_few_keys(job: "TrainingJob", keys: int, wait: float) -> None:
    """Warn if a job asks for more nodes than there are keys, as the others can never come."""
    from dynamite_fl.job.build_data import number_of_devices

    devices = number_of_devices(job)
    if keys < devices:
        warnings.warn(
            f"the job has {devices} devices, but there are keys for {count(keys, 'node')} only: "
            f"give --set 'devices={{clients={keys}}}', or make more keys. Otherwise the training "
            f"begins without the others after {wait:g} s",
            stacklevel=2,
        )


def prepare_task(job: "TrainingJob", data_dir: Path | None, view: "RunView") -> "Task":
    """Make the task of a job on real machines.

    Every mistake in the job shows here, before the run folder is made and nodes are waited for.
    """
    from dynamite_fl.flower.job_parts import refuse_pilot
    from dynamite_fl.job.build import build_controller, check_cohort
    from dynamite_fl.job.build_data import build_task, check_test_data, number_of_devices
    from dynamite_fl.task.trial import try_task

    view.say("Loading the model and the test data")
    task = build_task(job, data_dir)
    try_task(task, needs_train_data=False)
    check_test_data(task, number_of_devices(job))
    check_cohort(job.settings.cohort, number_of_devices(job))
    build_controller(job, refuse_pilot)
    return task


def train_with_nodes(
    job: "TrainingJob",
    task: "Task",
    folder: "RunFolder",
    link: "SuperLink",
    view: "RunView",
    *,
    min_nodes: int,
    wait: float,
    names: Sequence[str] = (),
) -> None:
    """Wait for nodes, showing which are missing, then train.

    Args:
        job: The job.
        task: The job's task.
        folder: The run folder.
        link: The SuperLink that nodes connect to.
        view: The view that shows the training.
        min_nodes: The number of nodes that a round needs.
        wait: The longest wait for nodes, in seconds.
        names: The names of the nodes that were started, as far as they are known.
    """
    from dynamite_fl._cli.train import run_session
    from dynamite_fl.flower.engine import FlowerEngine
    from dynamite_fl.flower.job_parts import build_training
    from dynamite_fl.flower.timeouts import Timeouts
    from dynamite_fl.job.build_data import number_of_devices

    def show_wait(status: "WaitStatus") -> None:
        view.wait(str(status), urgent=status.round_index is None)

    training = build_training(
        job,
        task,
        folder,
        link,
        timeouts=Timeouts(join_seconds=wait),
        min_nodes=min(min_nodes, number_of_devices(job)),
        expected_names=names,
        on_wait=show_wait,
    )
    run_session(
        job,
        training,
        folder,
        view,
        seconds_between_checkpoints=0.0,  # a round on real machines is too expensive to lose
        how_to_go_on="repeat the command",
        on_end=cast(FlowerEngine, training.engine).roster.say_goodbye,
        is_real=True,
    )


def tell(view: "RunView", message: str) -> None:
    """Print a message above a live view."""
    view.console.print(message, markup=False, soft_wrap=True)


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that no process that was started is left behind."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
