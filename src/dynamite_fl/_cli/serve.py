"""The command ``dynamite serve``: train on real machines."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import DataDir, JobFile, LastLine, Overrides, Runs

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

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
    with errors(as_json):
        from dynamite_fl._cli.show import show_run
        from dynamite_fl.flower.job_parts import refuse_pilot
        from dynamite_fl.flower.keys import read_server_keys
        from dynamite_fl.flower.serve import open_job, open_superlink
        from dynamite_fl.job.build import (
            build_controller,
            build_task,
            check_cohort,
            check_test_data,
            number_of_devices,
        )
        from dynamite_fl.job.runs import opened_run
        from dynamite_fl.task.fingerprint import fingerprint
        from dynamite_fl.task.trial import try_task
        from dynamite_fl.training.run_folder import RunFolder

        folder = RunFolder(runs / name)
        server_keys = None if keys is None else read_server_keys(keys)
        training_job = open_job(folder, job, overrides or [])
        if folder.is_finished:
            show_run(folder, as_json)
            return
        task = build_task(training_job, data_dir)
        try_task(task, needs_train_data=False)
        check_test_data(task, number_of_devices(training_job))
        check_cohort(training_job.settings.cohort, number_of_devices(training_job))
        build_controller(training_job, refuse_pilot)  # a mistake shows before the folder is made
        with (
            sigterm_as_interrupt(),
            opened_run(folder, training_job, fingerprint(task), task.leading_metric),
            open_superlink(folder, host, port, server_keys) as link,
        ):
            audience = (
                "this machine only; use --keys to serve others"
                if server_keys is None
                else f"{len(server_keys.node_keys)} nodes with keys, over TLS"
            )
            console(as_json).print(f"Listening at {host}, port {link.port}, for {audience}.")
            train_with_nodes(
                training_job,
                task,
                folder,
                link,
                expected_nodes=number_of_devices(training_job),
                min_nodes=min_nodes,
                wait=wait,
                as_json=as_json,
            )


def train_with_nodes(
    job: "TrainingJob",
    task: "Task",
    folder: "RunFolder",
    link: "SuperLink",
    *,
    expected_nodes: int,
    min_nodes: int,
    wait: float,
    as_json: bool,
) -> None:
    """Wait for nodes, showing which are missing, then train and show the result."""
    from dynamite_fl._cli.train import train_and_show
    from dynamite_fl.flower.engine import Timeouts
    from dynamite_fl.flower.job_parts import build_training

    with _WaitView() as wait_view:
        training = build_training(
            job,
            task,
            folder,
            link,
            timeouts=Timeouts(join_seconds=wait),
            min_nodes=min(min_nodes, expected_nodes),
            expected_nodes=expected_nodes,
            on_wait=wait_view.show,
        )
    train_and_show(
        job,
        training,
        folder,
        as_json,
        seconds_between_checkpoints=0.0,  # a round on real machines is too expensive to lose
        how_to_go_on="repeat the command",
    )


def console(as_json: bool) -> "Console":
    """Return the console for messages: standard error if the output is JSON."""
    from rich.console import Console

    return Console(stderr=as_json, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that no process that was started is left behind."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _WaitView:
    """Shows which nodes are connected and which are missing.

    In its context it is a line on the terminal that is kept up to date. Without a terminal, and
    when training has to wait again after the context, it prints a line for every change.
    """

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("Waiting for nodes")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def show(self, status: "WaitStatus") -> None:
        """Show which nodes are connected and which are missing."""
        from rich.markup import escape

        if self._status is not None:
            self._status.update(escape(str(status)))
        else:
            self._console.print(str(status), markup=False)
