from pathlib import Path

import numpy as np
import pytest
import torch

from dynamite_fl.errors import DatasetError
from dynamite_fl.task.datasets.load import load_dataset
from tests.task.fixtures import write_images

LABELS = np.array([0, 9, 5, 5])


@pytest.mark.usefixtures("empty_cache")
def test_mnist_is_not_taken_for_fashion(tmp_path: Path) -> None:
    write_images(tmp_path, np.array([5, 0, 4, 1, 9, 2, 1, 3, 1, 4, 3, 5]))
    assert len(load_dataset("mnist", tmp_path, fetch=False).train_labels) == 12
    with pytest.raises(DatasetError, match="labels of mnist, not of fashion-mnist"):
        load_dataset("fashion-mnist", tmp_path, fetch=False)


@pytest.mark.parametrize("layout", ["", "emnist", "EMNIST/raw", "gzip", "emnist/gzip"])
@pytest.mark.usefixtures("empty_cache")
def test_emnist_images_are_turned_upright_in_every_layout(tmp_path: Path, layout: str) -> None:
    parts = ("emnist-balanced-train", "emnist-balanced-test")
    images = write_images(tmp_path / layout, LABELS, parts=parts, suffix=".gz")
    data = load_dataset("emnist", tmp_path, fetch=False)
    assert (data.name, data.classes) == ("emnist-balanced", 47)
    stored = (data.train_inputs[:, 0] * 255).round().numpy()
    assert np.array_equal(stored, images.transpose(0, 2, 1))
    assert data.train_inputs.is_contiguous()


@pytest.mark.usefixtures("empty_cache")
def test_labels_of_letters_are_counted_from_one_in_files(tmp_path: Path) -> None:
    parts = ("emnist-letters-train", "emnist-letters-test")
    write_images(tmp_path, np.array([1, 26, 2]), parts=parts)
    data = load_dataset("emnist-letters", tmp_path, fetch=False)
    assert (data.train_labels.tolist(), data.classes) == ([0, 25, 1], 26)
    for wrong in (0, 27):
        write_images(tmp_path, np.array([1, wrong]), parts=parts)
        with pytest.raises(DatasetError, match=f"train-labels-idx1-ubyte is .* a label {wrong},"):
            load_dataset("emnist-letters", tmp_path, fetch=False)


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
