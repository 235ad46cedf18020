"""Rows of an array in a file, read when they are needed.

A memory map counts every page that was ever touched as memory of the process. Reading rows from
the file leaves them to the system's cache, so that a process needs no more memory than its batches.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.from_numpy import from_numpy


class MappedFile:
    """The rows of a ``numpy.memmap``.

    Args:
        array: The memory map, in C order, as ``numpy.load(..., mmap_mode="r")`` or
            ``numpy.memmap`` return it.

    Example:
        >>> import tempfile
        >>> import torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/x.npy", np.arange(6.0, dtype=np.float32).reshape(3, 2))
        ...     rows = MappedFile(np.load(f"{folder}/x.npy", mmap_mode="r"))
        ...     rows[torch.tensor([2, 0])]
        tensor([[4., 5.],
                [0., 1.]])
    """

    def __init__(self, array: "np.memmap[Any, Any]") -> None:
        if not array.flags.c_contiguous or array.ndim == 0:
            raise InvalidInput(
                "a memory map must have its rows one after the other, as numpy.load(file, "
                'mmap_mode="r") returns it: copy a part such as a column with numpy.array(part)'
            )
        self.array = array
        self.shape, self.nbytes = array.shape, array.nbytes
        self._row_bytes = array.nbytes // len(array)
        # A view of a part of the map begins later in the file than the map.
        base = array
        while isinstance(base.base, np.memmap):
            base = base.base
        shift = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        self._start = int(array.offset + shift)
        try:
            self._file = os.open(Path(str(array.filename)), os.O_RDONLY)
        except OSError as error:
            raise InvalidInput(f"{array.filename} cannot be read: {error}") from None

    def __len__(self) -> int:
        return len(self.array)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the file's name and the place in it, and not what it holds."""
        return _reopened, (self.array.filename, self.array.dtype, self._start, self.shape)

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Read rows; their numbers get the types of models (``from_numpy``)."""
        values = np.empty((len(rows), *self.shape[1:]), dtype=self.array.dtype)
        for place, row in enumerate(rows.tolist()):
            self._read(values[place : place + 1], row)
        return from_numpy(values)

    def _read(self, into: NDArray[Any], row: int) -> None:
        offset = self._start + row * self._row_bytes
        if os.preadv(self._file, [into.view(np.uint8).reshape(-1).data], offset) < self._row_bytes:
            raise InvalidInput(f"{self.array.filename} ends before row {row}: was it cut off?")


def is_mapped(array: NDArray[Any]) -> bool:
    """Return whether an array is a map of a file with a name, whose content it shows.

    Example:
        >>> is_mapped(np.zeros(3))
        False
    """
    # A map in the mode "c" keeps changes to itself, and a copy of a map has no file.
    return isinstance(array, np.memmap) and array.filename is not None and array.mode != "c"


def _reopened(
    filename: str, dtype: np.dtype[Any], start: int, shape: tuple[int, ...]
) -> MappedFile:
    return MappedFile(np.memmap(filename, dtype, mode="r", offset=start, shape=shape))
