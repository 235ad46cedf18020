"""The command line, in this process or in one of its own."""

import subprocess
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from dynamite_fl._cli.all_commands import app
from tests.processes import MAIN, run_python


def invoke(*words: str | Path, columns: int = 100) -> Result:
    """Run a command in this process, which is quick. Exceptions that escape are raised."""
    runner = CliRunner(env={"COLUMNS": str(columns)})
    result = runner.invoke(app, list(map(str, words)), prog_name="dynamite")
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
    terminal = {"COLUMNS": str(columns), "PYTHONIOENCODING": encoding}
    return run_python(f"{before}\n{MAIN}", *words, cwd=cwd, environment=terminal)
