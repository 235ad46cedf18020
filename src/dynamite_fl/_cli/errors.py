"""How a command ends when something is wrong: one line and an exit code, or a traceback."""

import errno
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from dynamite_fl._extras import extra_of
from dynamite_fl._traceback import user_traceback, with_bug_note
from dynamite_fl.errors import DynamiteError, MissingExtra, UserCodeError, WorkerError

FAILED = 1
CANNOT_USE = 2
INFEASIBLE = 3
INTERRUPTED = 130

_NO_OUTPUT = (errno.ENOSPC, errno.EPIPE, errno.EIO)


@contextmanager
def errors(as_json: bool = False, extra: str | None = None) -> Iterator[None]:
    """Turn expected errors, and Ctrl-C, into one line and an exit code.

    What is not a ``DynamiteError`` is either the user's own code, whose frames are shown, or a bug
    of ours, which keeps its traceback.

    Args:
        as_json: Whether to print the error as JSON too.
        extra: The extra that installs everything that the command needs. Default: the one that
            installs the first module that is missing.
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
        first = extra_of(error)
        if first is None:
            _unexpected(error, as_json)
            raise
        fail(str(MissingExtra("this command", extra or first)), CANNOT_USE, as_json)
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if not is_output_error(error):
            _unexpected(error, as_json)
        raise


def is_output_error(error: BaseException) -> bool:
    """Return whether an exception says that output to the terminal, a pipe or a file failed."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _NO_OUTPUT


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
    text = user_traceback(error)
    if text is not None:
        typer.echo(text, err=True)
    return text is not None


def _unexpected(error: BaseException, as_json: bool) -> None:
    """End the command if the user's code raised the exception; otherwise mark it as our bug."""
    if _show_user_code(error):
        fail("your own code failed, as shown above", FAILED, as_json)
    with_bug_note(error)
