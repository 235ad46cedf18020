"""Datasets by name: digits, synthetic, mnist, fashion-mnist, emnist, cifar10."""

import re
from pathlib import Path

from dynamite_fl._validate import check_name
from dynamite_fl.errors import DatasetError
from dynamite_fl.task.datasets.cifar import read_cifar10
from dynamite_fl.task.datasets.dataset import Dataset
from dynamite_fl.task.datasets.digits import load_digits
from dynamite_fl.task.datasets.download import Progress, download
from dynamite_fl.task.datasets.folders import FileSearch, cache_folder, data_folders
from dynamite_fl.task.datasets.mnist import read_emnist, read_mnist
from dynamite_fl.task.datasets.sources import (
    CIFAR10,
    EMNIST_SPLITS,
    FASHION_MNIST,
    MNIST,
    Files,
    emnist_files,
)
from dynamite_fl.task.datasets.synthetic import synthetic

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


def load_dataset(
    name: str,
    data_dir: Path | str | None = None,
    *,
    seed: int = 0,
    clients: int = 30,
    fetch: bool = True,
    progress: Progress | None = None,
) -> Dataset:
    """Return a dataset by its name.

    ``digits`` comes with scikit-learn. ``synthetic`` is drawn; ``synthetic-0.5-0.5`` sets its
    alpha and beta. The others are files, laid out as published or as by torchvision. They are
    searched for in ``data_dir``, in the folder that the environment variable DYNAMITE_DATA names,
    and in the cache folder. If no folder has them, they are downloaded into the cache folder.

    Args:
        name: One of ``NAMES``. ``emnist`` is its balanced split.
        data_dir: The folder to search first.
        seed: The seed of ``synthetic``.
        clients: The number of clients of ``synthetic``.
        fetch: Whether to download missing files.
        progress: A function that is called during a download with the name of the file, the bytes
            so far, and the bytes in all or None.

    Raises:
        DatasetError: Files are missing and cannot be downloaded, or are damaged.
        InvalidInput: There is no dataset of this name.

    Example:
        >>> digits = load_dataset("digits")
        >>> digits.train_inputs.shape, digits.classes
        (torch.Size([1437, 1, 8, 8]), 10)
    """
    if match := _SYNTHETIC.fullmatch(str(name)):
        alpha, beta = match.groups(default="1")
        return synthetic(float(alpha), float(beta), clients, seed)
    check_name("dataset", name, NAMES)
    if name == "digits":
        return load_digits()
    folder = None if data_dir is None else Path(data_dir)
    if name == "cifar10":
        return read_cifar10(_locate(name, CIFAR10, folder, fetch, progress))
    if name.startswith("emnist"):
        split = name.removeprefix("emnist").removeprefix("-") or "balanced"
        return read_emnist(split, _locate(name, emnist_files(split), folder, fetch, progress))
    files = MNIST if name == "mnist" else FASHION_MNIST
    return read_mnist(name, _locate(name, files, folder, fetch, progress))


def _locate(
    name: str, files: Files, folder: Path | None, fetch: bool, progress: Progress | None
) -> list[Path]:
    """Return the paths of the files; download them if no folder has them."""
    search = FileSearch(data_folders(folder), files.layouts)
    advice = (
        f"Put the files of {name} into one of these folders, "
        "or name their folder by data_dir or DYNAMITE_DATA"
    )
    paths = _find(search, files)
    if paths is None and fetch and files.sources:
        try:
            for source in files.sources:
                download(source, cache_folder() / files.cached_in, progress)
        except DatasetError as error:
            raise search.missing(files.forms[0], f"{advice}.\n{error}") from None
        paths = _find(search, files)
    if paths is None:
        raise search.missing(files.forms[0], advice)
    return paths


def _find(search: FileSearch, files: Files) -> list[Path] | None:
    return next((paths for form in files.forms if (paths := search.find(form))), None)
