"""How a command ends when something is wrong: one line and an exit code, or a traceback."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from dynamite_fl.errors import DynamiteError, MissingExtra, UserCodeError, WorkerError

FAILED = 1
CANNOT_USE = 2
INFEASIBLE = 3
INTERRUPTED = 130

_FLOWER = ("cryptography", "fastapi", "flwr", "httpx", "starlette", "uvicorn")
# Modules that may be missing, and the extra that installs them.
_EXTRAS = {**dict.fromkeys(_FLOWER, "flower"), "ray": "ray", "plotly": "report"}


@contextmanager
def errors(as_json: bool = False) -> Iterator[None]:
    """Turn expected errors into one line and an exit code.

    What is not a ``DynamiteError`` is either the user's own code, whose frames are shown, or a bug
    of ours, which keeps its traceback.
    """
    try:
        yield
    except UserCodeError as error:
        _show_user_code(error.__cause__ or error)
        fail(str(error), CANNOT_USE, as_json)
    except DynamiteError as error:
        from dynamite_fl.job.planning import in_job_words

        fail(in_job_words(str(error)), _exit_code(error), as_json)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            _explain(error)
            raise
        fail(str(MissingExtra("this command", extra)), CANNOT_USE, as_json)
    except OSError as error:
        if error.filename is None or _show_user_code(error):
            raise
        fail(f"{error.filename} cannot be used: {error.strerror}", CANNOT_USE, as_json)
    except Exception as error:
        if _show_user_code(error):
            fail("your own code failed, as shown above", FAILED, as_json)
        _explain(error)
        raise


def fail(
    message: str, code: int, as_json: bool, details: dict[str, object] | None = None
) -> NoReturn:
    """Say what is wrong, and end with an exit code."""
    if as_json:
        typer.echo(json.dumps({"error": message, **(details or {})}))
    typer.echo(f"dynamite: {message}", err=True)
    sys.exit(code)


def _exit_code(error: DynamiteError) -> int:
    from dynamite_fl.plan.feasibility import Infeasible

    if isinstance(error, Infeasible):
        return INFEASIBLE
    return FAILED if isinstance(error, WorkerError) else CANNOT_USE


def _show_user_code(error: BaseException) -> bool:
    """Show the user's frames of an exception; False if it has none."""
    from dynamite_fl._traceback import user_traceback

    text = user_traceback(error)
    if text is not None:
        typer.echo(text, err=True)
    return text is not None


def _explain(error: BaseException) -> None:
    """Add to a traceback that it shows a bug, and where to report it."""
    error.add_note(
        "This is a bug in dynamite, not in your job. Please report it in the project's issue "
        "tracker, with the lines above, the command and `dynamite --version`."
    )
