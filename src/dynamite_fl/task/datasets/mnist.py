"""MNIST, Fashion-MNIST and EMNIST, read from idx files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dynamite_fl.task.datasets.dataset import Bytes, Dataset, unit_pixels, whole_labels
from dynamite_fl.task.datasets.files import damaged
from dynamite_fl.task.datasets.idx import read_labelled_images
from dynamite_fl.task.datasets.sources import EMNIST_SPLITS

# MNIST and Fashion-MNIST have files of the same names. Their first labels differ.
_FIRST_LABELS = {
    "mnist": bytes([5, 0, 4, 1, 9, 2, 1, 3, 1, 4]),
    "fashion-mnist": bytes([9, 0, 0, 3, 0, 2, 7, 2, 5, 5]),
}


def read_mnist(name: str, paths: Sequence[Path]) -> Dataset:
    """Return ``mnist`` or ``fashion-mnist``.

    Args:
        name: The name of the dataset.
        paths: The files of the training images, training labels, test images and test labels.
    """
    train = read_labelled_images(paths[0], paths[1], classes=10)
    test = read_labelled_images(paths[2], paths[3], classes=10)
    for other, first in _FIRST_LABELS.items():
        if other != name and train[1][: len(first)].tobytes() == first:
            raise damaged(paths[1], f"these are the labels of {other}, not of {name}")
    return _dataset(name, train, test, 10)


def read_emnist(split: str, paths: Sequence[Path]) -> Dataset:
    """Return a split of EMNIST.

    Args:
        split: One of ``EMNIST_SPLITS``.
        paths: The files of the training images, training labels, test images and test labels.
    """
    train = _read_emnist_part(split, paths[0], paths[1])
    test = _read_emnist_part(split, paths[2], paths[3])
    return _dataset(f"emnist-{split}", train, test, EMNIST_SPLITS[split])


def _read_emnist_part(split: str, images_path: Path, labels_path: Path) -> tuple[Bytes, Bytes]:
    """Return upright images, which EMNIST stores column by column, and labels from 0."""
    first_label = 1 if split == "letters" else 0
    classes = first_label + EMNIST_SPLITS[split]
    images, labels = read_labelled_images(images_path, labels_path, classes)
    if labels.min() < first_label:
        reason = f"it has a label {labels.min()}, but the smallest is {first_label}"
        raise damaged(labels_path, reason)
    return images.transpose(0, 2, 1), np.subtract(labels, first_label, dtype=np.uint8)


def _dataset(
    name: str, train: tuple[Bytes, Bytes], test: tuple[Bytes, Bytes], classes: int
) -> Dataset:
    return Dataset(
        name=name,
        train_inputs=unit_pixels(train[0]),
        train_labels=whole_labels(train[1]),
        test_inputs=unit_pixels(test[0]),
        test_labels=whole_labels(test[1]),
        classes=classes,
    )
