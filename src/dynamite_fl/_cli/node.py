"""The command ``dynamite node``: take part in a training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import DataDir, JobFile, Overrides

_EPILOG = """
[bold]Examples[/bold]

dynamite node job.toml --server training.example.org:9092 --name phone-1 --keys keys/phone-1

dynamite node job.toml --name phone-1 --part 0  [dim]# on the server's machine[/dim]

dynamite node job.toml --name cam-1 --incoming /var/samples  [dim]# samples that keep arriving[/dim]

A node reconnects whenever the connection is lost. To end it, send SIGTERM or press Ctrl-C: it \
leaves after its current round.
"""


@app.command(epilog=_EPILOG)
def node(
    name: Annotated[str, typer.Option("--name", help="The name of this device.")],
    job: JobFile = None,
    overrides: Overrides = None,
    server: Annotated[str, typer.Option(help="The server's address and port.")] = "127.0.0.1:9092",
    part: Annotated[
        int | None,
        typer.Option(
            min=0, help="The part of the job's partition to use, from 0. Default: all data."
        ),
    ] = None,
    incoming: Annotated[
        Path | None,
        typer.Option(
            help="The folder in which samples arrive as .npz files, instead of the job's data."
        ),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="This node's folder made by `dynamite keys`.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="The folder for this node's state. Default: node-NAME.")
    ] = None,
    cpu_share: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=1.0,
            help="The share of the time in which this node may compute; less than 1 imitates a "
            "slower device.",
        ),
    ] = 1.0,
    until_eof: Annotated[bool, typer.Option("--until-eof", hidden=True)] = False,
    data_dir: DataDir = None,
) -> None:
    """Take part in a training, with this device's own data."""
    with errors(as_json=False, extra="flower"):
        import threading

        from dynamite_fl._validate import check_folder_name
        from dynamite_fl.flower.join import NodeOptions, join, leave_at_end_of_input
        from dynamite_fl.job.runs import load_job_file

        if state is None:
            check_folder_name("--name", name)
        _log_to_stderr()
        leave = threading.Event()
        if until_eof:
            leave_at_end_of_input(leave)
        options = NodeOptions(
            server=server,
            name=name,
            state=state or Path(f"node-{name}"),
            part=part,
            incoming=incoming,
            keys=keys,
            cpu_share=cpu_share,
            data_dir=data_dir,
        )
        with _signals_to(leave.set):
            join(load_job_file(job, overrides or []), options, leave)


@contextmanager
def _signals_to(leave: Callable[[], None]) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C call a function."""
    import signal

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: leave()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _log_to_stderr() -> None:
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
