"""The idx format of MNIST: a magic number, sizes and bytes."""

import math
from pathlib import Path

import numpy as np

from dynamite_fl.task.dataset import Bytes
from dynamite_fl.task.raw import check_labels, corrupt, read_bytes

_UNSIGNED_BYTES = 8  # the format's code for the type of its entries


def read_idx(path: Path, dimensions: int) -> Bytes:
    """The array in an idx file of bytes.

    Args:
        path: The file, plain or gzipped.
        dimensions: How many the array must have: 1 for labels, 3 for images.

    Raises:
        DatasetError: The file is not what it should be.
    """
    content = read_bytes(path)
    magic = bytes([0, 0, _UNSIGNED_BYTES, dimensions])
    if content[:4] != magic:
        raise corrupt(path, f"it starts with {content[:4].hex() or 'nothing'}, not {magic.hex()}")
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise corrupt(path, "it ends within its header")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], dtype=">u4"))
    if len(content) - start != math.prod(shape):
        raise corrupt(path, f"it has {len(content) - start} bytes of data, not {math.prod(shape)}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_labelled_images(images: Path, labels: Path, classes: int) -> tuple[Bytes, Bytes]:
    """Images of 28x28 bytes and as many labels below ``classes``."""
    pixels, label = read_idx(images, 3), read_idx(labels, 1)
    if pixels.shape[1:] != (28, 28):
        raise corrupt(images, f"its images are {pixels.shape[1]}x{pixels.shape[2]}, not 28x28")
    if len(pixels) != len(label):
        raise corrupt(labels, f"it has {len(label)} labels for {len(pixels)} images")
    check_labels(labels, label, classes)
    return pixels, label
