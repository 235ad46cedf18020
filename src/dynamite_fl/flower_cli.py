"""The commands for real machines: ``serve``, ``node``, ``cluster`` and ``keys``."""

from pathlib import Path
from typing import Annotated

import typer

from dynamite_fl.options import Data, JobFile, LastLine, Overrides, Runs, errors

flower_app = typer.Typer()

_SERVE_EPILOG = """
[bold]Examples[/bold]

dynamite serve job.toml --name tuesday  [dim]# for nodes on this machine[/dim]

dynamite serve job.toml --name tuesday --host 0.0.0.0 --keys keys/server

The same command goes on after any interruption. docs/deploy.md has all of it, from zero.
"""

_RunName = Annotated[str, typer.Option("--name", help="The run's folder below runs/.")]
_Port = Annotated[int, typer.Option(min=0, max=65535, help="The port for nodes.")]
_LeastNodes = Annotated[int, typer.Option(min=1, help="How many nodes a round needs.")]
_Wait = Annotated[float, typer.Option(min=0, help="How many seconds to wait for nodes.")]


@flower_app.command(epilog=_SERVE_EPILOG)
def serve(
    name: _RunName,
    job: JobFile = None,
    overrides: Overrides = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: _Port = 9092,
    keys: Annotated[
        Path | None,
        typer.Option(help="The server's folder of dynamite keys; without it, this machine only."),
    ] = None,
    min_nodes: _LeastNodes = 2,
    wait: _Wait = 300.0,
    runs: Runs = Path("runs"),
    data_dir: Data = None,
    as_json: LastLine = False,
) -> None:
    """Train on real machines: wait for nodes, then play rounds with them.

    The job's devices say how many nodes there are, not how fast they are: that is measured.
    """
    with errors(as_json):
        from dynamite_fl.flower_command import Serving
        from dynamite_fl.flower_command import serve as serve_job

        serving = Serving(
            path=runs / name,
            job_file=job,
            overrides=tuple(overrides or []),
            data_dir=data_dir,
            host=host,
            port=port,
            keys=keys,
            min_nodes=min_nodes,
            wait=wait,
        )
        serve_job(serving, as_json)


_NODE_EPILOG = """
[bold]Examples[/bold]

dynamite node job.toml --server training.example.org:9092 --name phone-1 --keys keys/phone-1

dynamite node job.toml --name phone-1 --part 0  [dim]# on the server's machine[/dim]

Ends on SIGTERM or Ctrl-C, after the round that it is in. Nothing but that ends it: it connects \
again whenever the connection is lost.
"""


@flower_app.command(epilog=_NODE_EPILOG)
def node(
    name: Annotated[str, typer.Option("--name", help="The device's own name.")],
    job: JobFile = None,
    overrides: Overrides = None,
    server: Annotated[str, typer.Option(help="Address and port of the server.")] = "127.0.0.1:9092",
    part: Annotated[
        int | None,
        typer.Option(min=0, help="Which part of the job's partition it has; without, all data."),
    ] = None,
    keys: Annotated[Path | None, typer.Option(help="The node's folder of dynamite keys.")] = None,
    state: Annotated[
        Path | None, typer.Option(help="Where it keeps its state; else node-NAME.")
    ] = None,
    cpu_share: Annotated[
        float, typer.Option(min=0.001, max=1.0, help="How much of the time it computes.")
    ] = 1.0,
    until_eof: Annotated[bool, typer.Option("--until-eof", hidden=True)] = False,
    data_dir: Data = None,
) -> None:
    """Take part in a training, with this device's own data."""
    with errors(as_json=False):
        from dynamite_fl.flower_command import TakingPart, take_part

        taking = TakingPart(
            job_file=job,
            overrides=tuple(overrides or []),
            data_dir=data_dir,
            server=server,
            name=name,
            part=part,
            keys=keys,
            state=state or Path(f"node-{name}"),
            cpu_share=cpu_share,
            until_eof=until_eof,
        )
        take_part(taking)


@flower_app.command(
    epilog="[bold]Example[/bold]\n\ndynamite cluster --name trial -n 5 --cpu-shares 1,1,0.5,0.5,0.2"
)
def cluster(
    name: _RunName,
    job: JobFile = None,
    overrides: Overrides = None,
    nodes: Annotated[
        int | None, typer.Option("-n", min=1, help="How many nodes; else the job's devices.")
    ] = None,
    cpu_shares: Annotated[
        str, typer.Option(help="How much of the time each computes, in turn.")
    ] = "1,0.5,0.25",
    min_nodes: _LeastNodes = 1,
    wait: _Wait = 300.0,
    runs: Runs = Path("runs"),
    data_dir: Data = None,
    as_json: LastLine = False,
) -> None:
    """Try it out: server and nodes on this machine, which are made unequal."""
    with errors(as_json):
        from dynamite_fl.flower_command import Serving, run_cluster

        shares = [float(share) for share in cpu_shares.split(",")]
        serving = Serving(
            path=runs / name,
            job_file=job,
            overrides=tuple(overrides or []),
            data_dir=data_dir,
            min_nodes=min_nodes,
            wait=wait,
        )
        run_cluster(serving, nodes, shares, as_json)


@flower_app.command(
    epilog="[bold]Example[/bold]\n\ndynamite keys phone-1 phone-2 --host training.example.org"
)
def keys(
    nodes: Annotated[list[str], typer.Argument(help="The nodes' names.")],
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address of the server, as nodes write it. Repeatable."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where the keys go.")] = Path("keys"),
) -> None:
    """Make certificates and keys: a folder for the server and one for each node.

    Copy each folder to its machine, and to no other. Run it again to add nodes.
    """
    with errors(as_json=False):
        from dynamite_fl.engine.flower.keys import SERVER, make_keys

        new = make_keys(folder, host or [], nodes)
        typer.echo(f"For the server: {folder / SERVER}")
        for each in new:
            typer.echo(f"For {each}: {folder / each}")
        typer.echo(f"Keep {folder / 'ca.key'} to yourself: who has it can pose as the server.")
