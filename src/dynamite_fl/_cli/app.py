"""The command ``dynamite`` itself; each of its commands has a file of its own."""

from typing import Annotated

import typer

app = typer.Typer(
    help="Federated learning that keeps to a deadline and a budget.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dynamite {version('dynamite-fl')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    """Define the options of ``dynamite`` itself."""
