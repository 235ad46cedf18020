import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from dynamite_fl.errors import DatasetError
from dynamite_fl.task.datasets.cifar import read_batch, standardised
from tests.task.fixtures import cifar_pickle, write

PIXELS = np.arange(2 * 3072).reshape(2, 3072) % 251


class Trap:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", ["data_batch_1", "data_batch_1.gz"])
def test_a_pickle(tmp_path: Path, name: str) -> None:
    images, labels = read_batch(write(tmp_path / name, cifar_pickle(PIXELS, [9, 0])))
    assert np.array_equal(images.reshape(2, -1), PIXELS)
    assert labels.tolist() == [9, 0]


def test_plain_bytes(tmp_path: Path) -> None:
    rows = np.column_stack([[9, 0], PIXELS]).astype(np.uint8)
    images, labels = read_batch(write(tmp_path / "data_batch_1.bin", rows.tobytes()))
    assert np.array_equal(images.reshape(2, -1), PIXELS)
    assert labels.tolist() == [9, 0]


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_no_code_of_a_pickle_runs(tmp_path: Path, protocol: int) -> None:
    touched = tmp_path / "touched"
    batch = pickle.dumps({b"data": Trap(touched), b"labels": [1]}, protocol=protocol)
    path = write(tmp_path / "data_batch_1", batch)
    with pytest.raises(DatasetError, match=r"data_batch_1 is damaged: .*asks for"):
        read_batch(path)
    assert not touched.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a batch of CIFAR-10"),
        (b"garbage", "not a batch of CIFAR-10"),
        (cifar_pickle(PIXELS, [9, 0])[:-100], "not a batch of CIFAR-10"),
        (pickle.dumps({b"labels": [1]}), "not a batch of CIFAR-10"),
        (pickle.dumps([1, 2]), "not a batch of CIFAR-10"),
        (pickle.dumps({b"data": b"", b"labels": [300]}), "not a batch of CIFAR-10"),
        (pickle.dumps({b"data": np.zeros(3072), b"labels": [1]}), "not rows of bytes"),
        (cifar_pickle(PIXELS, [9]), "1 labels for 6144 bytes"),
        (cifar_pickle(PIXELS, [9, 10]), "it has a label 10"),
        (cifar_pickle(PIXELS[:0], []), "it is empty"),
    ],
)
def test_a_damaged_pickle_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = write(tmp_path / "data_batch_1", content)
    with pytest.raises(DatasetError, match=f"data_batch_1 is damaged: .*{reason}"):
        read_batch(path)


def test_damaged_bytes_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "test_batch.bin", bytes(3072))
    with pytest.raises(DatasetError, match=r"test_batch\.bin is damaged: .* multiple of 3073"):
        read_batch(path)


def test_real_cifar(real_cifar_batch: Path) -> None:
    images, labels = read_batch(real_cifar_batch)
    assert images.shape == (10_000, 3, 32, 32)
    assert labels[:5].tolist() == [3, 8, 8, 0, 6]  # cat, ship, ship, aeroplane, frog
    assert np.bincount(labels).tolist() == [1000] * 10
    some = standardised(images[:100]).flatten(1)
    torch.testing.assert_close(some.mean(dim=1), torch.zeros(100), atol=1e-5, rtol=0)
    torch.testing.assert_close(some.std(dim=1, correction=0), torch.ones(100))
