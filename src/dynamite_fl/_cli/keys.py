"""The command ``dynamite keys``: make certificates and keys."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors

_EPILOG = """
[bold]Example[/bold]

dynamite keys phone-1 phone-2 --host training.example.org
"""


@app.command(epilog=_EPILOG)
def keys(
    nodes: Annotated[list[str], typer.Argument(help="The names of the nodes.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="A name or address by which nodes reach the server. Can be repeated. "
            "Default: localhost and 127.0.0.1."
        ),
    ] = None,
    folder: Annotated[Path, typer.Option(help="The folder for all keys.")] = Path("keys"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the folders as JSON for scripts.")
    ] = False,
) -> None:
    """Make certificates and keys: one folder for the server and one for each node.

    Copy each folder to its machine, and to no other. Repeat the command to add nodes.
    """
    with errors(as_json, extra="flower"):
        from dynamite_fl.flower.keys import SERVER, make_keys

        new = make_keys(folder, host or [], nodes)
        if as_json:
            made = {name: str(folder / name) for name in new}
            typer.echo(json.dumps({"server": str(folder / SERVER), "nodes": made}))
            return
        typer.echo(f"For the server: {folder / SERVER}")
        for name in new:
            typer.echo(f"For {name}: {folder / name}")
        typer.echo(f"Keep {folder / 'ca.key'} secret: whoever has it can pass for the server.")
