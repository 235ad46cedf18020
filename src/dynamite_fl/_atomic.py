"""Files that are written as a whole: a reader, or a crash, never sees half of one.

Every byte that this package writes to a run folder goes through ``write_out``.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from dynamite_fl.errors import OutputError

_TEMPORARY = ".writing-"  # how the names of files that are not whole yet begin


def write_atomically(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes_atomically(path, text.encode())


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically.

    A link is followed, and a file's permissions stay. What is not a file, such as a pipe, is
    written to directly.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_TEMPORARY)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write_out(file, content)
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def append_line(path: Path, text: str) -> None:
    """Add a line to a file, and return when the disk has it."""
    try:
        with path.open("ab") as file:
            write_out(file, text.encode())
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None


def write_out(file: BinaryIO, content: bytes) -> None:
    """Write to an open file, and return when the disk has it."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def remove_leftovers(folder: Path) -> None:
    """Remove files that were being written in a folder when their process was killed.

    The caller knows that no other process writes there.
    """
    for path in folder.glob(f"{_TEMPORARY}*"):
        with suppress(OSError):
            path.unlink()


def _umask() -> int:
    """Return the permissions that new files lack; reading them means setting them for a moment."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
