"""Where a device's own samples come from: any iterator, or a folder that files arrive in."""

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

# What NumPy raises for a file that is cut off, damaged or something else.
_UNREADABLE = (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Portion:
    """Samples that arrived together.

    Attributes:
        name: What to call them where something is wrong with them.
        inputs: Of each sample, (m, ...).
        targets: Of each sample, (m, ...).
    """

    name: str
    inputs: NDArray[Any]
    targets: NDArray[Any]


class Source(Protocol):
    """What samples come from.

    Attributes:
        taken: What must be remembered beyond a restart so that nothing is taken in twice.
    """

    taken: tuple[str, ...]

    def portions(self) -> Iterator[Portion]:
        """What has arrived since this was last asked; the next one once this one is stored."""
        ...


class Samples:
    """Samples from an iterator, some each round; it may end.

    Where it is after a restart is for its maker to know: ``Store.seen`` says how many were taken.

    Args:
        samples: Inputs and target of each.
        each_round: How many are taken at most each round.

    Example:
        >>> source = Samples(iter([([1.0, 2.0], 0), ([3.0, 4.0], 1)]), each_round=1)
        >>> [portion.inputs.tolist() for portion in source.portions()]
        [[[1.0, 2.0]]]
    """

    def __init__(self, samples: Iterable[tuple[ArrayLike, ArrayLike]], each_round: int) -> None:
        if each_round < 1:
            raise ValueError(f"each_round is {each_round}: it must be 1 or more")
        self.taken: tuple[str, ...] = ()
        self._samples = enumerate(samples, start=1)
        self._each_round = each_round

    def portions(self) -> Iterator[Portion]:
        """See ``Source``."""
        for number, (inputs, target) in islice(self._samples, self._each_round):
            yield Portion(f"sample {number}", np.asarray(inputs)[None], np.asarray(target)[None])


class Folder:
    """Samples from ``.npz`` files that arrive in a folder, in the order of their names.

    A file has the arrays ``inputs`` and ``targets``. Write it under a name that begins with a dot
    or ends in ``.part`` and rename it when it is whole. Files are read once and never deleted; one
    of a name that was gone in between counts as new.

    Args:
        path: The folder.
        taken: Names of files that were taken in before.
    """

    def __init__(self, path: Path | str, taken: Iterable[str] = ()) -> None:
        self.path = Path(path)
        self.taken = tuple(taken)
        if not self.path.is_dir():
            raise ValueError(f"{self.path} is no folder that samples could arrive in")

    def portions(self) -> Iterator[Portion]:
        """See ``Source``."""
        there = sorted(file.name for file in self.path.iterdir() if _is_ready(file))
        self.taken = tuple(name for name in self.taken if name in there)
        for name in there:
            if name not in self.taken:
                yield _read(self.path / name)
                self.taken = (*self.taken, name)  # only now is it stored


def _is_ready(file: Path) -> bool:
    return file.suffix == ".npz" and not file.name.startswith(".") and file.is_file()


def _read(file: Path) -> Portion:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return Portion(str(file), arrays["inputs"], arrays["targets"])
    except KeyError:
        raise ValueError(f"{file} needs the arrays inputs and targets") from None
    except _UNREADABLE as error:
        raise ValueError(f"{file} cannot be read as .npz: {error}") from None
