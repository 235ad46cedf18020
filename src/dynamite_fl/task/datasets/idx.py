"""The idx format of MNIST's files: a magic number, the sizes of the dimensions, and bytes."""

import math
from pathlib import Path

import numpy as np

from dynamite_fl.task.datasets.dataset import Bytes
from dynamite_fl.task.datasets.files import check_labels, damaged, read_bytes

_UNSIGNED_BYTES = 8  # the format's code for the type of its entries


def read_idx(path: Path, dimensions: int) -> Bytes:
    """Return the array in an idx file of bytes.

    Args:
        path: The file, plain or gzipped.
        dimensions: The number of dimensions that the array must have: 1 for labels, 3 for images.

    Raises:
        DatasetError: The file is damaged or of another format.
    """
    content = read_bytes(path)
    magic = bytes([0, 0, _UNSIGNED_BYTES, dimensions])
    if content[:4] != magic:
        raise damaged(path, f"it starts with {content[:4].hex() or 'nothing'}, not {magic.hex()}")
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise damaged(path, "it ends within its header")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], dtype=">u4"))
    if len(content) - start != math.prod(shape):
        raise damaged(path, f"it has {len(content) - start} bytes of data, not {math.prod(shape)}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_labelled_images(images_path: Path, labels_path: Path, classes: int) -> tuple[Bytes, Bytes]:
    """Return images of 28x28 bytes and their labels, which are below the number of classes."""
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if images.shape[1:] != (28, 28):
        size = f"{images.shape[1]}x{images.shape[2]}"
        raise damaged(images_path, f"its images are {size}, not 28x28")
    if len(images) != len(labels):
        raise damaged(labels_path, f"it has {len(labels)} labels for {len(images)} images")
    check_labels(labels_path, labels, classes)
    return images, labels
