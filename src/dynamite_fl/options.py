"""What commands share: options, and how they say that something cannot be used."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

_FAILED = 1
CANNOT_USE = 2
INFEASIBLE = 3
_OF_FLOWER = ("cryptography", "fastapi", "flwr", "httpx", "starlette", "uvicorn")
_EXTRAS = {**dict.fromkeys(_OF_FLOWER, "flower"), "ray": "ray"}  # what is missing, and who has it

JobFile = Annotated[Path | None, typer.Argument(help="A TOML file; without one, the embedded job.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a key of the job, as in limits.deadline=500; none removes it. Repeatable.",
    ),
]

Name = Annotated[str | None, typer.Option("--name", help="The run's folder below runs/.")]
Runs = Annotated[Path, typer.Option("--runs", help="Where run folders are.")]
Data = Annotated[
    Path | None, typer.Option("--data-dir", help="Where datasets are; else DYNAMITE_DATA.")
]
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(help="Who computes: this machine, or Ray, here or on RAY_ADDRESS's cluster."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
LastLine = Annotated[bool, typer.Option("--json", help="Print the history's last line as JSON.")]


@contextmanager
def errors(as_json: bool) -> Iterator[None]:
    """Say in one line what is wrong with a job, and end with the code for it."""
    from dynamite_fl.plan.infeasible import Infeasible

    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        extra = _EXTRAS[missing]
        what = f"this needs {extra.title()}: pip install 'dynamite-fl[{extra}]'"
        fail(what, CANNOT_USE, as_json, {})
    except Infeasible as error:
        fail(str(error), INFEASIBLE, as_json, {})
    except ValueError as error:
        fail(str(error), CANNOT_USE, as_json, {})
    except RuntimeError as error:
        from dynamite_fl.engine.pool import WorkerError

        if not isinstance(error, WorkerError):
            raise
        fail(str(error), _FAILED, as_json, {})
    except OSError as error:
        where = error.filename or "the run's folder"
        fail(f"{where} cannot be written: {error.strerror}", CANNOT_USE, as_json, {})


def fail(message: str, code: int, as_json: bool, details: dict[str, object]) -> NoReturn:
    """Say what is wrong, and end."""
    if as_json:
        typer.echo(json.dumps({"error": message, **details}))
    typer.echo(f"dynamite: {message}", err=True)
    sys.exit(code)
