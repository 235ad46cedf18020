"""Files that are written as a whole: a reader, or a crash, never sees half of one."""

import os
import tempfile
from pathlib import Path

from dynamite_fl.errors import OutputError


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
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Return the permissions that new files lack; reading them means setting them for a moment."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
