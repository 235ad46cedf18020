import numpy as np
import pytest
import torch

from dynamite_fl.task.datasets.load import load_dataset
from dynamite_fl.task.datasets.synthetic import synthetic
from dynamite_fl.task.partition import Partition


def test_shapes_and_owners() -> None:
    data = synthetic(clients=7, seed=4)
    assert data.train_inputs.shape == (len(data.train_labels), 60)
    assert data.train_inputs.dtype == torch.float32
    assert data.train_labels.dtype == torch.int64
    assert data.train_clients is not None
    partition = Partition.from_owners(data.train_clients, clients=7)
    assert partition.sizes.min() >= 45
    assert partition.sizes.sum() == len(data.train_labels)
    total = len(data.train_labels) + len(data.test_labels)
    assert len(data.test_labels) == pytest.approx(total / 10, abs=7)
    assert 0 <= data.train_labels.min() <= data.train_labels.max() < 10


def test_data_depends_on_the_seed() -> None:
    first, again, other = (load_dataset("synthetic", seed=seed, clients=3) for seed in (1, 1, 2))
    assert torch.equal(first.train_inputs, again.train_inputs)
    assert torch.equal(first.test_labels, again.test_labels)
    assert not torch.equal(first.train_inputs[:50], other.train_inputs[:50])


def test_inputs_have_the_published_variance() -> None:
    data = synthetic(clients=30, seed=3)
    assert data.train_clients is not None
    largest = np.bincount(data.train_clients).argmax()
    inputs = data.train_inputs[torch.from_numpy(data.train_clients == largest)]
    assert len(inputs) > 1000
    expected = torch.arange(1, 61) ** -1.2
    assert (inputs.var(dim=0) / expected - 1).abs().max() < 0.25


def test_inputs_of_clients_differ_more_with_beta() -> None:
    def distance(beta: float) -> float:
        data = load_dataset(f"synthetic-0-{beta}", clients=20, seed=1)
        assert data.train_clients is not None
        groups = [data.train_inputs[data.train_clients == client] for client in range(20)]
        return float(torch.stack([group.mean() for group in groups]).std())

    assert distance(0) < 0.4 < 2 < distance(4)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="alpha is -1"):
        synthetic(alpha=-1)
    with pytest.raises(ValueError, match="number of clients is 0"):
        synthetic(clients=0)
