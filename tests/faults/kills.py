"""Faults on purpose: kills at the moments of writing, and damaged files."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from dynamite_fl import _atomic
from dynamite_fl.training import session
from tests.processes import HANG_SECONDS, run_forked, start_fork

MOMENTS = ("before", "half way", "after")  # a write; "after" is before the file gets its name


def kill_at_write(number: int, moment: str) -> list[bytes]:
    """Let this process kill itself at some write, counted from 0.

    The function that writes every byte of a run folder is wrapped, for the rest of the process.

    Returns:
        What was written so far; it grows.
    """
    write_out, written = _atomic.write_out, list[bytes]()

    def write_or_die(file: BinaryIO, content: bytes) -> None:
        dies = len(written) == number
        written.append(content)
        if dies and moment == "half way":
            file.write(content[: len(content) // 2])
            file.flush()
        elif not dies or moment == "after":
            write_out(file, content)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)

    _atomic.write_out = write_or_die
    return written


def killed_at_write(action: Callable[[], object], number: int, moment: str, output: Path) -> bool:
    """Run an action in a fork that dies at some write; False if it ended before that write."""

    def act() -> None:
        kill_at_write(number, moment)
        action()

    code = run_forked(act, output)
    assert code in (0, -signal.SIGKILL), output.read_text()
    return code != 0


def killed_after(action: Callable[[], object], seconds: float, output: Path) -> bool:
    """Run an action in a fork that is killed after some time; False if it ended before that."""
    process = start_fork(action, output)
    process.join(seconds)
    if process.exitcode is None and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    process.join(HANG_SECONDS)
    assert process.exitcode in (0, -signal.SIGKILL), output.read_text()
    return process.exitcode != 0


def save_each_round() -> None:
    """Let commands write a checkpoint after each round, for the rest of the process."""

    class Careful(session.Session):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **{**settings, "seconds_between_checkpoints": 0.0})

    session.Session = Careful  # type: ignore[misc]


FILES = ("history.jsonl", "model.safetensors", "ended.txt", "checkpoint.safetensors")


def same_files(ours: Path, theirs: Path) -> bool:
    """Return whether two run folders have the same history, model, end and checkpoint."""
    return all((ours / name).read_bytes() == (theirs / name).read_bytes() for name in FILES)
