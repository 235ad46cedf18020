"""Processes of their own: Python and the command line, and waiting for what they do."""

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkProcess
from pathlib import Path

HANG_SECONDS = 600.0  # a limit that only ends a hang; no test waits this long otherwise
MAIN = "from dynamite_fl._cli.main import main; main()"


def wait_until(condition: Callable[[], bool], explain: Callable[[], object] = str) -> None:
    """Wait for a condition; fail with an explanation if it does not come true."""
    ends = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < ends, explain()
        time.sleep(0.02)


def run_python(
    script: str,
    *words: str | Path,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a Python script to its end.

    Args:
        script: The text of the script.
        words: The script's arguments.
        cwd: The folder to run in.
        environment: Variables that are set in addition to those of this process.
    """
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env={**os.environ, **(environment or {})},
        cwd=cwd,
        check=False,
    )


def start_command(
    *words: str | Path,
    environment: Mapping[str, str] | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    cwd: Path | None = None,
    new_session: bool = False,
) -> subprocess.Popen[str]:
    """Start ``dynamite`` and return while it runs."""
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, words)],
        env={**os.environ, **(environment or {})},
        stdout=stdout,
        stderr=stderr,
        text=True,
        cwd=cwd,
        start_new_session=new_session,
    )


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def run_forked(action: Callable[[], object], output: Path) -> int | None:
    """Run an action in a fork of this process, and return the exit code; -9 for a kill.

    A fork has all modules that this process has, so it takes no time to start.

    Args:
        action: What the fork does.
        output: The file that receives what the fork prints.
    """
    process = start_fork(action, output)
    process.join(HANG_SECONDS)
    assert process.exitcode is not None
    return process.exitcode


def start_fork(action: Callable[[], object], output: Path) -> ForkProcess:
    """Begin an action in a fork of this process, and return while it runs."""
    process = multiprocessing.get_context("fork").Process(target=_act, args=(action, output))
    process.start()
    return process


def main(*words: str | Path) -> None:
    """Run ``dynamite`` to its end, in a fork of this process."""
    from dynamite_fl._cli.main import main as run

    sys.argv = ["dynamite", *map(str, words)]
    run()


def _act(action: Callable[[], object], output: Path) -> None:
    with output.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        sys.stdout = sys.stderr = file
        action()
