"""Files that are written as a whole: nobody ever finds half of one, not even after a crash.

Every byte that this package writes to a run folder goes through ``write_out``.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from dynamite_fl.errors import OutputError

TEMPORARY = ".writing-"  # how the names of files that are not whole yet begin


def write_atomically(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes_atomically(path, text.encode())


def write_bytes_atomically(path: Path, content: bytes, *, keep_as: Path | None = None) -> None:
    """Write a file atomically.

    A link is followed, and a file's permissions stay. What is not a file, such as a pipe, is
    written to directly.

    Args:
        path: The file.
        content: The new content of the file.
        keep_as: The path under which the file's former content is kept. Default: nowhere.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        _write_directly(path, content)
        return
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write_out(file, content)
        temporary.chmod(mode)
        if keep_as is not None and path.exists():
            path.replace(keep_as)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_directly(path: Path, content: bytes) -> None:
    """Write to a pipe or a device; fail, rather than wait, if nobody reads the pipe."""
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


def append_line(path: Path, text: str) -> None:
    """Add a line to a file, and return when the disk has it."""
    try:
        with open(path, "ab", opener=_opened_without_waiting) as file:
            write_out(file, text.encode())
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


def _opened_without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody reads is an error."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def write_out(file: BinaryIO, content: bytes) -> None:
    """Write to an open file, and return when the disk has it."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def remove_leftovers(folder: Path) -> None:
    """Remove files that were being written in a folder when their process was killed.

    The caller knows that no other process writes there.
    """
    for path in folder.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            path.unlink()


def _umask() -> int:
    """Return the permissions that new files lack, which must be set for a moment to be read."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
