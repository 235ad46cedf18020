from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

from dynamite_fl.errors import DatasetError
from dynamite_fl.task.datasets import load
from dynamite_fl.task.datasets.load import load_dataset
from dynamite_fl.task.datasets.sources import MNIST
from tests.task.fixtures import write_cifar, write_images

LABELS = np.array([0, 9, 5, 5])


def redirected(monkeypatch: pytest.MonkeyPatch, urls: list[str], checksums: list[str]) -> None:
    """Replace the public addresses of MNIST."""
    places = zip(MNIST.sources, urls, checksums, strict=True)
    sources = tuple(
        replace(source, urls=(url,), sha256=checksum) for source, url, checksum in places
    )
    monkeypatch.setattr(load, "MNIST", replace(MNIST, sources=sources))


@pytest.mark.parametrize("layout", ["", "mnist", "MNIST/raw"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.usefixtures("empty_cache")
def test_mnist_layouts(tmp_path: Path, layout: str, suffix: str) -> None:
    images = write_images(tmp_path / layout, LABELS, suffix=suffix)
    data = load_dataset("mnist", tmp_path, fetch=False)
    assert data.train_inputs.shape == (4, 1, 28, 28)
    assert data.train_inputs.dtype == torch.float32
    assert np.array_equal((data.test_inputs[:, 0] * 255).round().numpy(), images)
    assert data.train_labels.tolist() == LABELS.tolist()
    assert data.classes == 10


@pytest.mark.parametrize("layout", ["", "fashion-mnist", "FashionMNIST/raw"])
@pytest.mark.usefixtures("empty_cache")
def test_fashion_layouts(tmp_path: Path, layout: str) -> None:
    write_images(tmp_path / layout, LABELS)
    assert load_dataset("fashion-mnist", str(tmp_path), fetch=False).name == "fashion-mnist"


@pytest.mark.parametrize(
    ("layout", "binary"),
    [
        ("", False),
        ("cifar-10-batches-py", False),
        ("cifar10/cifar-10-batches-py", False),
        ("cifar-10-batches-bin", True),
        ("cifar10", True),
    ],
)
@pytest.mark.usefixtures("empty_cache")
def test_cifar_layouts(tmp_path: Path, layout: str, binary: bool) -> None:
    images, labels = write_cifar(tmp_path / layout, binary=binary)
    data = load_dataset("cifar10", tmp_path, fetch=False)
    assert data.train_inputs.shape == (10, 3, 32, 32)
    assert data.test_inputs.shape == (2, 3, 32, 32)
    assert data.train_labels.tolist() == labels.tolist()
    expected = (images[3] - images[3].mean()) / images[3].std()
    assert data.train_inputs[3].numpy() == pytest.approx(expected, abs=1e-5)


def test_folders_are_searched_in_order(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_label(folder: Path | None) -> int:
        return int(load_dataset("mnist", folder, fetch=False).train_labels[0])

    write_images(empty_cache / "mnist", np.array([1]))
    assert first_label(None) == 1
    write_images(tmp_path / "named" / "mnist", np.array([2]))
    monkeypatch.setenv("DYNAMITE_DATA", str(tmp_path / "named"))
    assert first_label(None) == 2
    write_images(tmp_path / "given" / "mnist", np.array([3]))
    assert first_label(tmp_path / "given") == 3
    assert first_label(tmp_path / "nothing") == 2


def test_missing_files_are_named_with_every_folder(tmp_path: Path, empty_cache: Path) -> None:
    with pytest.raises(DatasetError) as failure:
        load_dataset("mnist", tmp_path / "given", fetch=False)
    message = str(failure.value)
    for part in ("train-images-idx3-ubyte", "given/MNIST/raw", f"{empty_cache}/mnist"):
        assert part in message
    assert "name their folder by data_dir or DYNAMITE_DATA" in message
    write_images(tmp_path, LABELS)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DatasetError, match=r"^t10k-labels-idx1-ubyte "):
        load_dataset("mnist", tmp_path, fetch=False)


def test_missing_files_are_downloaded_once(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_images(tmp_path / "public", LABELS, suffix=".gz")
    files = [tmp_path / "public" / source.file for source in MNIST.sources]
    checksums = [sha256(file.read_bytes()).hexdigest() for file in files]
    redirected(monkeypatch, [file.as_uri() for file in files], checksums)
    seen: set[str] = set()
    data = load_dataset("mnist", progress=lambda file, *_: seen.add(file))
    assert data.train_labels.tolist() == LABELS.tolist()
    assert seen == {path.name for path in (empty_cache / "mnist").iterdir()}
    (tmp_path / "public").rename(tmp_path / "gone")
    assert torch.equal(load_dataset("mnist").train_inputs, data.train_inputs)


def test_a_failed_download_names_files_and_folders(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redirected(monkeypatch, ["https://127.0.0.1:9/x"] * 4, [""] * 4)
    with pytest.raises(DatasetError) as failure:
        load_dataset("mnist")
    message = str(failure.value)
    for part in ("train-images-idx3-ubyte", f"{empty_cache}/mnist", "could not be downloaded"):
        assert part in message
    assert not list(empty_cache.rglob("*.gz"))


@pytest.mark.usefixtures("empty_cache")
def test_reduced_emnist_cannot_be_downloaded() -> None:
    with pytest.raises(DatasetError, match="emnist-reduced-train-images-idx3-ubyte"):
        load_dataset("emnist-reduced")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("mnits", "mnist"), ("emnist-leters", "emnist-letters"), ("cifar-10", "cifar10")],
)
def test_an_unknown_name_suggests_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{hint}'"):
        load_dataset(name)


def test_a_name_that_is_not_text_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no dataset 3: use one of digits"):
        load_dataset(3)  # type: ignore[arg-type]
