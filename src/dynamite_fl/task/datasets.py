"""Datasets by name: digits, synthetic, mnist, fashion-mnist, emnist, cifar10."""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.task.cifar import read_batch
from dynamite_fl.task.dataset import Bytes, Dataset, DatasetError, unit_pixels, whole_labels
from dynamite_fl.task.download import Progress, download
from dynamite_fl.task.folders import Search, cache_folder, data_folders
from dynamite_fl.task.idx import read_labelled_images
from dynamite_fl.task.names import unknown
from dynamite_fl.task.raw import corrupt
from dynamite_fl.task.sources import (
    CIFAR10,
    EMNIST_SPLITS,
    FASHION_MNIST,
    MNIST,
    Files,
    emnist_files,
)
from dynamite_fl.task.synthetic import synthetic

NAMES = (
    "digits",
    "synthetic",
    "mnist",
    "fashion-mnist",
    "emnist",
    *(f"emnist-{split}" for split in EMNIST_SPLITS),
    "cifar10",
)
_SYNTHETIC = re.compile(r"synthetic(?:-(\d+\.?\d*)-(\d+\.?\d*))?")
# Both sets have files of the same names: their first labels tell them apart.
_FIRST_LABELS = {
    "mnist": bytes([5, 0, 4, 1, 9, 2, 1, 3, 1, 4]),
    "fashion-mnist": bytes([9, 0, 0, 3, 0, 2, 7, 2, 5, 5]),
}


def load_dataset(
    name: str,
    data_dir: Path | str | None = None,
    *,
    seed: int = 0,
    clients: int = 30,
    fetch: bool = True,
    progress: Progress | None = None,
) -> Dataset:
    """A dataset by its name.

    ``digits`` comes with scikit-learn and ``synthetic`` (or ``synthetic-0.5-0.5``, with alpha
    and beta) is drawn. The others are files, looked for in ``data_dir``, in the folder that
    the environment's DYNAMITE_DATA names, and in the cache folder, as published or as
    torchvision lays them out; if they are nowhere, they are downloaded into the cache folder.

    Args:
        name: One of ``NAMES``; ``emnist`` is its balanced split.
        data_dir: Where to look first.
        seed: For ``synthetic``.
        clients: For ``synthetic``, how many clients to draw.
        fetch: Whether to download what is missing.
        progress: Called during a download with the file, the bytes so far, and the bytes in
            all or None.

    Raises:
        DatasetError: Files are missing and cannot be downloaded, or are damaged.
        ValueError: There is no dataset of this name.

    Example:
        >>> digits = load_dataset("digits")
        >>> digits.train_inputs.shape, digits.classes
        (torch.Size([1437, 1, 8, 8]), 10)
    """
    if match := _SYNTHETIC.fullmatch(name):
        alpha, beta = match.groups(default="1")
        return synthetic(float(alpha), float(beta), clients, seed)
    if name not in NAMES:
        raise ValueError(unknown("dataset", name, NAMES))
    if name == "digits":
        return _digits()
    folder = None if data_dir is None else Path(data_dir)
    if name == "cifar10":
        return _cifar10(_locate(name, CIFAR10, folder, fetch, progress))
    if name.startswith("emnist"):
        split = name.removeprefix("emnist").removeprefix("-") or "balanced"
        return _emnist(split, _locate(name, emnist_files(split), folder, fetch, progress))
    files = MNIST if name == "mnist" else FASHION_MNIST
    return _mnist(name, _locate(name, files, folder, fetch, progress))


def _locate(
    name: str, files: Files, folder: Path | None, fetch: bool, progress: Progress | None
) -> list[Path]:
    """Where the files are, if need be after a download."""
    search = Search(data_folders(folder), files.layouts)
    advice = f"Put the files of {name} into one of these, and name it by data_dir or DYNAMITE_DATA"
    found = _find(search, files)
    if found is None and fetch and files.sources:
        try:
            for source in files.sources:
                download(source, cache_folder() / files.cached_in, progress)
        except DatasetError as error:
            raise search.missing(files.forms[0], f"{advice}.\n{error}") from None
        found = _find(search, files)
    if found is None:
        raise search.missing(files.forms[0], advice)
    return found


def _find(search: Search, files: Files) -> list[Path] | None:
    return next((found for form in files.forms if (found := search.find(form))), None)


def _digits() -> Dataset:
    """1797 images of 8x8 with 16 levels of grey; a fifth, always the same, is for testing."""
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError:
        raise DatasetError("digits comes with scikit-learn: pip install scikit-learn") from None
    pixels, labels = load_digits(return_X_y=True)
    shuffled = np.random.default_rng(0).permutation(len(labels))
    cut = len(labels) * 4 // 5
    inputs = torch.from_numpy((pixels[shuffled] / 16).astype(np.float32).reshape(-1, 1, 8, 8))
    targets = whole_labels(labels[shuffled])
    return Dataset("digits", inputs[:cut], targets[:cut], inputs[cut:], targets[cut:], classes=10)


def _mnist(name: str, paths: list[Path]) -> Dataset:
    train, train_labels = read_labelled_images(paths[0], paths[1], classes=10)
    test, test_labels = read_labelled_images(paths[2], paths[3], classes=10)
    for other, first in _FIRST_LABELS.items():
        if other != name and train_labels[: len(first)].tobytes() == first:
            raise corrupt(paths[1], f"these are the labels of {other}, not of {name}")
    return _images(name, (train, train_labels), (test, test_labels), 10)


def _emnist(split: str, paths: list[Path]) -> Dataset:
    """EMNIST's images are stored column by column; its letters are numbered from 1."""
    classes = EMNIST_SPLITS[split]
    start = 1 if split == "letters" else 0
    train, test = (
        _upright(images, labels, start, classes) for images, labels in (paths[:2], paths[2:])
    )
    return _images(f"emnist-{split}", train, test, classes)


def _upright(images: Path, labels: Path, start: int, classes: int) -> tuple[Bytes, Bytes]:
    pixels, label = read_labelled_images(images, labels, start + classes)
    if label.min() < start:
        raise corrupt(labels, f"it has a label {label.min()}, but the smallest is {start}")
    return pixels.transpose(0, 2, 1), np.subtract(label, start, dtype=np.uint8)


def _images(
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


def _cifar10(paths: list[Path]) -> Dataset:
    train_inputs, train_labels = _standard_batches(paths[:-1])
    test_inputs, test_labels = _standard_batches(paths[-1:])
    return Dataset("cifar10", train_inputs, train_labels, test_inputs, test_labels, classes=10)


def _standard_batches(paths: Iterable[Path]) -> tuple[Tensor, Tensor]:
    inputs, labels = [], []
    for path in paths:
        images, label = read_batch(path)
        inputs.append(standardised(images))
        labels.append(whole_labels(label))
    return torch.cat(inputs), torch.cat(labels)


def standardised(images: Bytes) -> Tensor:
    """Each image with mean 0 and deviation 1, as TensorFlow's per_image_standardization.

    An image of one colour, whose deviation is 0, is divided by 1 / sqrt(its entries) instead.

    Example:
        >>> standardised(np.array([[[[1, 3]]], [[[7, 7]]]], dtype=np.uint8)).flatten()
        tensor([-1.,  1.,  0.,  0.])
    """
    rows = torch.from_numpy(images.reshape(len(images), -1).astype(np.float32))
    deviation, mean = torch.std_mean(rows, dim=1, correction=0, keepdim=True)
    rows.sub_(mean).div_(deviation.clamp_min(rows.shape[1] ** -0.5))
    return rows.reshape(images.shape)
