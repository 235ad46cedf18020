"""The command ``dynamite watch``: a page that follows a training."""

import json
from typing import Annotated

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import RunPaths

_HELP = """
Serve a page that follows trainings while they go on.

It shows what `dynamite report` shows, of one run or of all runs in a folder, simulated or on real \
machines, and updates itself. Only this machine can open it. With --host, other machines can open \
it too, with the token in the address; the connection is not encrypted.
"""

_EPILOG = """
[bold]Examples[/bold]

dynamite watch runs/tuesday  [dim]# then open the address that it shows[/dim]

dynamite watch runs  [dim]# all runs in the folder[/dim]

dynamite watch runs --host 0.0.0.0 --port 8080  [dim]# for other machines too[/dim]

Press Ctrl-C to stop. Exit codes: 0 success, 2 the address cannot be used.
"""


@app.command(help=_HELP, epilog=_EPILOG)
def watch(
    folders: RunPaths,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Default: this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free port.")
    ] = 8765,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address as JSON for scripts.")
    ] = False,
) -> None:
    """Serve the page until Ctrl-C is pressed."""
    with errors(as_json, extra="report"):
        from dynamite_fl.report.live_server import LiveServer
        from dynamite_fl.report.read_runs import run_folders

        with LiveServer(folders, host, port) as server:
            for folder in folders:
                if not run_folders(folder):
                    typer.echo(f"note: {folder} holds no run yet", err=True)
            if server.token is not None:
                typer.echo(
                    "note: other machines can open the page with its token. The connection is not "
                    "encrypted; use an SSH tunnel or a proxy with TLS on networks that you do not "
                    "trust.",
                    err=True,
                )
            typer.echo(json.dumps({"url": server.url}) if as_json else f"Open {server.url}")
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                typer.echo("Stopped.", err=True)
