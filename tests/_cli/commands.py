"""The command line, in this process or in one of its own."""

import os
import subprocess
import sys
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from dynamite_fl._cli.main import app

MAIN = "from dynamite_fl._cli.main import main; main()"


def invoke(*words: str | Path) -> Result:
    """Run a command in this process, which is quick. Exceptions that escape are raised."""
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def dynamite(
    *words: str | Path,
    columns: int = 100,
    encoding: str = "utf-8",
    before: str = "",
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, in a process of its own.

    Args:
        words: The command line.
        columns: The width of the terminal.
        encoding: The encoding of the terminal.
        before: Python code that runs before the command.
        cwd: The folder to run in.
    """
    return subprocess.run(
        [sys.executable, "-c", f"{before}\n{MAIN}", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=600,  # only ends a hang
        env={**os.environ, "COLUMNS": str(columns), "PYTHONIOENCODING": encoding},
        cwd=cwd,
        check=False,
    )
