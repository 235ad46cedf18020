"""Safe reading of files that others may have prepared: no pipe, no device and no huge file."""

import os
import stat
from pathlib import Path

_MANY_BYTES = 4_000_000_000  # more than any history


def read_regular(path: Path, most_bytes: int = _MANY_BYTES) -> bytes:
    """Return the content of a regular file.

    Reading a pipe could wait for ever, and a device such as ``/dev/zero`` never ends.

    Args:
        path: The file.
        most_bytes: The largest size that is read.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It is not a regular file, too large or not readable.

    Example:
        >>> read_regular(Path(os.devnull))
        Traceback (most recent call last):
        OSError: [Errno 22] it is not a regular file: '/dev/null'
    """
    with open(path, "rb", opener=_opened_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(22, "it is not a regular file", str(path))
        if status.st_size > most_bytes:
            raise OSError(27, f"it has more than {most_bytes:,} bytes", str(path))
        return file.read()


def _opened_without_waiting(path: str, flags: int) -> int:
    """Open a file; of a pipe that nobody writes to, nothing is waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_regular_text(path: Path, most_bytes: int = _MANY_BYTES) -> str:
    """Return the text of a regular file in UTF-8; a byte that is no text becomes a question mark.

    Raises:
        OSError: As for ``read_regular``.
    """
    return read_regular(path, most_bytes).decode("utf-8", errors="replace")
