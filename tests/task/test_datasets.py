from dataclasses import replace
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest
import torch

from dynamite_fl.task import datasets
from dynamite_fl.task.cifar import read_batch
from dynamite_fl.task.dataset import DatasetError
from dynamite_fl.task.datasets import load_dataset, standardised
from dynamite_fl.task.sources import MNIST
from tests.task.fixtures import write_cifar, write_images

LABELS = np.array([0, 9, 5, 5])


def test_digits_are_split_once_for_all() -> None:
    first, again = load_dataset("digits"), load_dataset("digits", seed=5)
    assert torch.equal(first.train_inputs, again.train_inputs)
    assert first.train_inputs.shape == (1437, 1, 8, 8)
    assert first.test_inputs.shape == (360, 1, 8, 8)
    assert first.train_inputs.min() == 0
    assert first.train_inputs.max() == 1
    assert torch.bincount(first.train_labels).min() > 120
    everything = torch.cat([first.train_inputs, first.test_inputs]) * 16
    assert everything.sum() == 561_718  # of all pixels that scikit-learn ships


def redirected(monkeypatch: pytest.MonkeyPatch, urls: list[str], checksums: list[str]) -> None:
    """Let MNIST be public elsewhere."""
    places = zip(MNIST.sources, urls, checksums, strict=True)
    sources = tuple(replace(source, urls=(url,), md5=checksum) for source, url, checksum in places)
    monkeypatch.setattr(datasets, "MNIST", replace(MNIST, sources=sources))


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


@pytest.mark.usefixtures("empty_cache")
def test_mnist_is_not_taken_for_fashion(tmp_path: Path) -> None:
    write_images(tmp_path, np.array([5, 0, 4, 1, 9, 2, 1, 3, 1, 4, 3, 5]))
    assert len(load_dataset("mnist", tmp_path, fetch=False).train_labels) == 12
    with pytest.raises(DatasetError, match="labels of mnist, not of fashion-mnist"):
        load_dataset("fashion-mnist", tmp_path, fetch=False)


@pytest.mark.parametrize("layout", ["", "emnist", "EMNIST/raw", "gzip", "emnist/gzip"])
@pytest.mark.usefixtures("empty_cache")
def test_emnist_layouts_and_orientation(tmp_path: Path, layout: str) -> None:
    parts = ("emnist-balanced-train", "emnist-balanced-test")
    images = write_images(tmp_path / layout, LABELS, parts=parts, suffix=".gz")
    data = load_dataset("emnist", tmp_path, fetch=False)
    assert (data.name, data.classes) == ("emnist-balanced", 47)
    stored = (data.train_inputs[:, 0] * 255).round().numpy()
    assert np.array_equal(stored, images.transpose(0, 2, 1))
    assert data.train_inputs.is_contiguous()


@pytest.mark.usefixtures("empty_cache")
def test_letters_count_from_one(tmp_path: Path) -> None:
    parts = ("emnist-letters-train", "emnist-letters-test")
    write_images(tmp_path, np.array([1, 26, 2]), parts=parts)
    data = load_dataset("emnist-letters", tmp_path, fetch=False)
    assert (data.train_labels.tolist(), data.classes) == ([0, 25, 1], 26)
    for wrong in (0, 27):
        write_images(tmp_path, np.array([1, wrong]), parts=parts)
        with pytest.raises(DatasetError, match=f"train-labels-idx1-ubyte is .* a label {wrong},"):
            load_dataset("emnist-letters", tmp_path, fetch=False)


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
    def found(folder: Path | None) -> int:
        return int(load_dataset("mnist", folder, fetch=False).train_labels[0])

    write_images(empty_cache / "mnist", np.array([1]))
    assert found(None) == 1
    write_images(tmp_path / "named" / "mnist", np.array([2]))
    monkeypatch.setenv("DYNAMITE_DATA", str(tmp_path / "named"))
    assert found(None) == 2
    write_images(tmp_path / "given" / "mnist", np.array([3]))
    assert found(tmp_path / "given") == 3
    assert found(tmp_path / "nothing") == 2


def test_missing_files_are_named_with_every_folder(tmp_path: Path, empty_cache: Path) -> None:
    with pytest.raises(DatasetError) as failure:
        load_dataset("mnist", tmp_path / "given", fetch=False)
    message = str(failure.value)
    for part in ("train-images-idx3-ubyte", "given/MNIST/raw", f"{empty_cache}/mnist"):
        assert part in message
    assert "name it by data_dir or DYNAMITE_DATA" in message
    write_images(tmp_path, LABELS)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DatasetError, match=r"^t10k-labels-idx1-ubyte "):
        load_dataset("mnist", tmp_path, fetch=False)


def test_what_is_missing_is_downloaded_once(
    tmp_path: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_images(tmp_path / "public", LABELS, suffix=".gz")
    files = [tmp_path / "public" / source.file for source in MNIST.sources]
    checksums = [md5(file.read_bytes(), usedforsecurity=False).hexdigest() for file in files]
    redirected(monkeypatch, [file.as_uri() for file in files], checksums)
    seen: set[str] = set()
    data = load_dataset("mnist", progress=lambda file, *_: seen.add(file))
    assert data.train_labels.tolist() == LABELS.tolist()
    assert seen == {path.name for path in (empty_cache / "mnist").iterdir()}
    (tmp_path / "public").rename(tmp_path / "gone")
    assert torch.equal(load_dataset("mnist").train_inputs, data.train_inputs)


def test_without_a_network(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    redirected(monkeypatch, ["https://127.0.0.1:9/x"] * 4, [""] * 4)
    with pytest.raises(DatasetError) as failure:
        load_dataset("mnist")
    message = str(failure.value)
    for part in ("train-images-idx3-ubyte", f"{empty_cache}/mnist", "could not be downloaded"):
        assert part in message
    assert not list(empty_cache.rglob("*.gz"))


@pytest.mark.usefixtures("empty_cache")
def test_the_reduced_set_is_nowhere_to_download() -> None:
    with pytest.raises(DatasetError, match="emnist-reduced-train-images-idx3-ubyte"):
        load_dataset("emnist-reduced")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("mnits", "mnist"), ("emnist-leters", "emnist-letters"), ("cifar-10", "cifar10")],
)
def test_an_unknown_name_suggests_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {hint}"):
        load_dataset(name)


def test_real_mnist(real_images: Path) -> None:
    data = load_dataset("mnist", real_images, fetch=False)
    assert data.train_inputs.shape == (60_000, 1, 28, 28)
    assert data.test_inputs.shape == (10_000, 1, 28, 28)
    assert data.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.train_inputs.mean().item() == pytest.approx(0.1307, abs=1e-4)  # as is well known
    assert data.train_inputs.std().item() == pytest.approx(0.3081, abs=1e-4)


def test_real_emnist(real_images: Path) -> None:
    data = load_dataset("emnist-reduced", real_images, fetch=False)
    assert data.train_inputs.shape == (99_845, 1, 28, 28)
    assert data.test_inputs.shape == (18_800, 1, 28, 28)
    assert len(torch.bincount(data.train_labels)) == 47
    ones = data.test_inputs[data.test_labels == 1].mean(dim=0)[0]  # upright: taller than wide
    assert (ones.amax(dim=1) > 0.2).sum() > (ones.amax(dim=0) > 0.2).sum() + 5


def test_real_cifar(real_cifar_batch: Path) -> None:
    images, labels = read_batch(real_cifar_batch)
    assert images.shape == (10_000, 3, 32, 32)
    assert labels[:5].tolist() == [3, 8, 8, 0, 6]  # cat, ship, ship, aeroplane, frog
    assert np.bincount(labels).tolist() == [1000] * 10
    some = standardised(images[:100]).flatten(1)
    torch.testing.assert_close(some.mean(dim=1), torch.zeros(100), atol=1e-5, rtol=0)
    torch.testing.assert_close(some.std(dim=1, correction=0), torch.ones(100))
