"""The two published forms of CIFAR-10's batches: Python's pickles and plain bytes.

A pickle may run any code when it is read. These need only a dictionary, a list of labels and
one array of bytes, so that is all that is understood here: NumPy's classes are replaced by
stand-ins that merely keep what they are given, and any other name is refused.
"""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from dynamite_fl.records import IntArray
from dynamite_fl.task.dataset import Bytes
from dynamite_fl.task.raw import check_labels, corrupt, read_bytes

_PIXELS = 3 * 32 * 32
_CLASSES = 10


def read_batch(path: Path) -> tuple[Bytes, IntArray]:
    """Images (n, 3, 32, 32) and labels (n,) of one batch, a pickle or ``.bin``.

    Raises:
        DatasetError: The file is not what it should be.
    """
    parse = _from_bytes if ".bin" in path.suffixes else _from_pickle
    pixels, labels = parse(path, read_bytes(path))
    check_labels(path, labels, _CLASSES)
    return pixels.reshape(-1, 3, 32, 32), labels.astype(np.int64)


def _from_bytes(path: Path, content: bytes) -> tuple[Bytes, Bytes]:
    if len(content) % (1 + _PIXELS):
        raise corrupt(path, f"its length is no multiple of {1 + _PIXELS} bytes")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + _PIXELS)
    return rows[:, 1:], rows[:, 0]


def _from_pickle(path: Path, content: bytes) -> tuple[Bytes, Bytes]:
    try:
        batch = _BatchReader(io.BytesIO(content), encoding="bytes").load()
        pixels = batch[b"data"].bytes()
        labels = np.frombuffer(bytes(batch[b"labels"]), dtype=np.uint8)
    except Exception as error:  # whatever a damaged pickle leads to
        raise corrupt(path, f"it is no batch of CIFAR-10 ({error})") from None
    if pixels.size != labels.size * _PIXELS:
        raise corrupt(path, f"it has {labels.size} labels for {pixels.size} bytes of pixels")
    return pixels, labels


class _Array:
    """What a pickle says of a NumPy array."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def bytes(self) -> Bytes:
        _, _, kind, by_columns, content = self.state
        if kind.code not in (b"u1", "u1") or by_columns:
            raise ValueError("its data are not rows of bytes")
        return np.frombuffer(content, dtype=np.uint8)


class _Kind:
    """What a pickle says of the type of an array's entries."""

    def __init__(self, code: bytes | str, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment do not matter for bytes."""


def _new_array(*_: object) -> _Array:
    return _Array()


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy._core.multiarray", "_reconstruct"): _new_array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
}


class _BatchReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _STAND_INS[module, name]
