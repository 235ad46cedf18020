"""Sources of a device's own samples."""

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dynamite_fl.errors import InvalidInput

# The exceptions that NumPy raises for a file that is cut off, damaged or not an .npz file.
_READ_ERRORS = (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Delivery:
    """Samples that arrived together.

    Attributes:
        name: The name of the delivery in error messages.
        inputs: The inputs of each sample, (m, ...).
        targets: The target of each sample, (m, ...).
    """

    name: str
    inputs: NDArray[Any]
    targets: NDArray[Any]


class Source(Protocol):
    """A source of samples.

    Attributes:
        taken: The names of deliveries that were taken in and could come again. They are saved with
            the samples, so that no delivery is taken in twice after a restart.
    """

    taken: tuple[str, ...]

    def deliveries(self) -> Iterator[Delivery]:
        """Yield the deliveries that have arrived since the last call.

        A delivery counts as taken in when the next one is asked for.
        """
        ...


class FolderSource:
    """Samples from ``.npz`` files that arrive in a folder, in the order of their names.

    A file holds the arrays ``inputs`` and ``targets``. It must be written under a name that begins
    with a dot or ends in ``.part`` and be renamed when it is complete. Files are read once and are
    never deleted. A file that was deleted and comes back under the same name is read again.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.taken: tuple[str, ...] = ()
        if not self.folder.is_dir():
            raise InvalidInput(f"{self.folder} is not a folder: samples must arrive in a folder")

    def deliveries(self) -> Iterator[Delivery]:
        """Yield the new files; see ``Source``."""
        names = sorted(file.name for file in self.folder.iterdir() if _is_complete(file))
        self.taken = tuple(name for name in self.taken if name in names)
        for name in names:
            if name not in self.taken:
                yield _read(self.folder / name)
                self.taken = (*self.taken, name)


def _is_complete(file: Path) -> bool:
    return file.suffix == ".npz" and not file.name.startswith(".") and file.is_file()


def _read(file: Path) -> Delivery:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return Delivery(str(file), arrays["inputs"], arrays["targets"])
    except KeyError:
        raise InvalidInput(f"{file} needs the arrays inputs and targets") from None
    except _READ_ERRORS as error:
        raise InvalidInput(f"{file} cannot be read as .npz: {error}") from None
