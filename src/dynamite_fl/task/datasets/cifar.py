"""CIFAR-10, read from either of its two published forms: Python's pickles and plain bytes.

A pickle may run any code when it is read. The batches of CIFAR-10 need only a dictionary, a list
of labels and one array of bytes. Therefore NumPy's classes are replaced by stand-ins that only
keep their arguments, and any other class or function is refused.
"""

import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.task.datasets.dataset import Bytes, Dataset, whole_labels
from dynamite_fl.task.datasets.files import check_labels, damaged, read_bytes

_PIXELS = 3 * 32 * 32
_CLASSES = 10


def read_cifar10(paths: Sequence[Path]) -> Dataset:
    """Return CIFAR-10 with standardised images.

    Args:
        paths: The files of the five training batches and of the test batch.
    """
    train_inputs, train_labels = _read_batches(paths[:-1])
    test_inputs, test_labels = _read_batches(paths[-1:])
    return Dataset(
        "cifar10", train_inputs, train_labels, test_inputs, test_labels, classes=_CLASSES
    )


def _read_batches(paths: Sequence[Path]) -> tuple[Tensor, Tensor]:
    inputs, labels = [], []
    for path in paths:
        batch_images, batch_labels = read_batch(path)
        inputs.append(standardised(batch_images))
        labels.append(whole_labels(batch_labels))
    return torch.cat(inputs), torch.cat(labels)


def standardised(images: Bytes) -> Tensor:
    """Return each image with mean 0 and deviation 1, as TensorFlow's per_image_standardization.

    The deviation of an image is taken to be at least 1 / sqrt(the number of its entries), so that
    an image of one colour becomes 0.

    Example:
        >>> standardised(np.array([[[[1, 3]]], [[[7, 7]]]], dtype=np.uint8)).flatten()
        tensor([-1.,  1.,  0.,  0.])
    """
    rows = torch.from_numpy(images.reshape(len(images), -1).astype(np.float32))
    deviation, mean = torch.std_mean(rows, dim=1, correction=0, keepdim=True)
    rows.sub_(mean).div_(deviation.clamp_min(rows.shape[1] ** -0.5))
    return rows.reshape(images.shape)


def read_batch(path: Path) -> tuple[Bytes, IntArray]:
    """Return the images (n, 3, 32, 32) and labels (n,) of one batch, a pickle or ``.bin``.

    Raises:
        DatasetError: The file is damaged or of another format.
    """
    parse = _from_bytes if ".bin" in path.suffixes else _from_pickle
    pixels, labels = parse(path, read_bytes(path))
    check_labels(path, labels, _CLASSES)
    return pixels.reshape(-1, 3, 32, 32), labels.astype(np.int64)


def _from_bytes(path: Path, content: bytes) -> tuple[Bytes, Bytes]:
    if len(content) % (1 + _PIXELS):
        raise damaged(path, f"its length is not a multiple of {1 + _PIXELS} bytes")
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + _PIXELS)
    return rows[:, 1:], rows[:, 0]


def _from_pickle(path: Path, content: bytes) -> tuple[Bytes, Bytes]:
    try:
        batch = _BatchReader(io.BytesIO(content), encoding="bytes").load()
        pixels = batch[b"data"].bytes()
        labels = np.frombuffer(bytes(batch[b"labels"]), dtype=np.uint8)
    except Exception as error:  # a damaged pickle may raise anything
        raise damaged(path, f"it is not a batch of CIFAR-10 ({error})") from None
    if pixels.size != labels.size * _PIXELS:
        raise damaged(path, f"it has {labels.size} labels for {pixels.size} bytes of pixels")
    return pixels, labels


class _Array:
    """A stand-in for a NumPy array in a pickle."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def bytes(self) -> Bytes:
        _, _, entry_type, by_columns, content = self.state
        if entry_type.code not in (b"u1", "u1") or by_columns:
            raise InvalidInput("its data is not rows of bytes")
        return np.frombuffer(content, dtype=np.uint8)


class _EntryType:
    """A stand-in for the type of an array's entries in a pickle."""

    def __init__(self, code: bytes | str, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Ignore byte order and alignment, which do not matter for bytes."""


def _new_array(*_: object) -> _Array:
    return _Array()


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy._core.multiarray", "_reconstruct"): _new_array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _EntryType,
}


class _BatchReader(pickle.Unpickler):
    """A reader of pickles that knows only the stand-ins."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _STAND_INS[module, name]
