"""The command ``dynamite new``: a project of one's own that runs at once."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import Json

_EPILOG = """
[bold]Examples[/bold]

dynamite new leaves  [dim]# devices are simulated[/dim]

dynamite new leaves --on machines  [dim]# devices are real machines[/dim]

Exit codes: 0 success, 2 the folder exists already.
"""
_SUFFIX = ".template"
_NEXT = {
    "simulation": "dynamite run job.toml --name first",
    "machines": "dynamite cluster job.toml --name trial",
}


@app.command(epilog=_EPILOG)
def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="The folder to make.")],
    on: Annotated[
        Literal["simulation", "machines"],
        typer.Option(help="Whether devices are simulated or real machines."),
    ] = "simulation",
    as_json: Json = False,
) -> None:
    """Make a project of your own that runs at once: job, task to fill in, test and README."""
    with errors(as_json):
        files = make_project(folder, on)
        if as_json:
            typer.echo(json.dumps({"folder": str(folder), "files": files}))
            return
        typer.echo(f"Made {folder} with {', '.join(files)}. To train:")
        typer.echo(f"  cd {folder}\n  {_NEXT[on]}")


def make_project(folder: Path, kind: str) -> list[str]:
    """Make a folder with the files of a template, and return their names.

    Args:
        folder: The folder to make. Its name is the name of the project.
        kind: ``simulation`` or ``machines``.

    Raises:
        JobError: The folder exists already and is not empty.
        OutputError: A file cannot be written.
    """
    from importlib import resources

    from dynamite_fl._atomic import write_atomically
    from dynamite_fl.errors import JobError, OutputError

    templates = resources.files("dynamite_fl") / "templates" / kind
    texts = {
        template.name.removesuffix(_SUFFIX): template.read_text(encoding="utf-8")
        for template in templates.iterdir()
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except FileExistsError:
        is_empty = False
    except OSError as error:
        raise OutputError(f"{folder} cannot be made: {error.strerror}") from None
    if not is_empty:
        raise JobError(f"{folder} exists already and is not empty: choose another name")
    for name, text in texts.items():
        write_atomically(folder / name, text.replace("{{name}}", folder.resolve().name))
    return sorted(texts)
