"""A lock on a folder, so that two processes never write to one run at the same time.

The operating system holds the lock for as long as the process lives, however it ends. So a lock
that a killed process left behind blocks nobody. The lock file says who holds it.
"""

import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from dynamite_fl.errors import RunFolderError

LOCK_NAME = ".lock"
_HAS_LOCKS = find_spec("fcntl") is not None  # Windows has none
_MOST_BYTES = 400  # of what a lock file says


class FolderLock:
    """The lock of one folder. Its holder may take it again, as often as it likes.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     with FolderLock(Path(name)).held():
        ...         os.listdir(name)
        ...     os.listdir(name)
        ['.lock']
        []
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times_held = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock in a context. The folder is made; if it stays empty, it is removed.

        Raises:
            RunFolderError: Another process, or another object, holds the lock; the message says
                which and since when.
        """
        if self._times_held:
            with self._counted():
                yield
            return
        is_new = _make_folder(self._folder)
        try:
            with _locked(self._folder / LOCK_NAME), self._counted():
                yield
        finally:
            if is_new:
                with suppress(OSError):  # it is not empty
                    self._folder.rmdir()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._times_held += 1
        try:
            yield
        finally:
            self._times_held -= 1


def _make_folder(folder: Path) -> bool:
    """Make a folder; return whether it is new."""
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{folder} cannot be made: {error.strerror}") from None
    return is_new


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    descriptor = _lock(file)
    if descriptor is None:
        yield
        return
    _HELD.add(descriptor)
    try:
        yield
    finally:
        if descriptor in _HELD:  # and not in a fork
            _HELD.discard(descriptor)
            with suppress(OSError):
                file.unlink()  # still locked: whoever opened this file notices that it is gone
            os.close(descriptor)


def _lock(file: Path) -> int | None:
    """Lock a file and write into it who does; None where there are no locks."""
    if not _HAS_LOCKS:
        return None
    import fcntl

    while True:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            descriptor = os.open(file, flags, 0o666)
        except OSError as error:
            raise RunFolderError(f"{file} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, _MOST_BYTES).decode(errors="replace").strip()
            os.close(descriptor)
            raise RunFolderError(
                f"{file.parent} is in use by {holder or 'another process'}: wait until it ends, "
                "or stop it"
            ) from None
        except OSError as error:
            os.close(descriptor)
            warnings.warn(
                f"{file.parent} cannot be locked ({error.strerror}): take care that no other "
                "process uses it at the same time",
                stacklevel=2,
            )
            return None
        if _is_at(file, descriptor):
            break
        os.close(descriptor)  # the former holder has just removed this file
    with suppress(OSError):  # on a full disk, the lock holds without words
        os.ftruncate(descriptor, 0)
        os.write(descriptor, _who().encode())
    return descriptor


def _is_at(file: Path, descriptor: int) -> bool:
    """Return whether a path still is that of an open file."""
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _who() -> str:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return f"process {os.getpid()} on {socket.gethostname()} since {since}\n"


# A forked process has the open files of this one, and would hold their locks for as long as it
# lives.
_HELD: set[int] = set()


def _forget() -> None:
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


if _HAS_LOCKS:
    os.register_at_fork(after_in_child=_forget)
