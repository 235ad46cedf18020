"""A client whose data has NaN says so, instead of sending a model that is refused."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.client.unsound_samples import refuse_unsound_samples
from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.samples import as_samples
from dynamite_fl.task.task import Task


class Rows(Dataset[tuple[Tensor, int]]):
    """Six samples, of which one may have a value that is not finite."""

    def __init__(self, bad: int | None = None, value: float = np.nan) -> None:
        self.bad, self.value = bad, value

    def __len__(self) -> int:
        return 6

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return torch.tensor([1.0, self.value if row == self.bad else 0.5]), row % 2


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_sample_and_the_client_are_named(value: float) -> None:
    samples = as_samples("data", Rows(4, value))
    with pytest.raises(InvalidInput, match=r"Task\.train_data\[4\], a sample of client 7, has NaN"):
        refuse_unsound_samples(7, samples, [np.array([5, 0]), np.array([4, 5])])
    refuse_unsound_samples(7, samples, [np.array([5, 0]), np.array([3])])


def test_a_sample_of_a_list_is_named_by_its_place_in_its_dataset() -> None:
    samples = as_samples("data", [Rows(), Rows(2)])
    with pytest.raises(InvalidInput, match=r"Task\.train_data\[1\]\[2\], a sample of client 1,"):
        refuse_unsound_samples(1, samples, [np.arange(6, 12)])


def order(model: FlatModel, learning_rate: float = 0.1) -> Order:
    return Order(
        client=3,
        round_index=1,
        weights=model.first_weights,
        local_steps=4,
        batch_size=2,
        learning_rate=learning_rate,
        probe=False,
        remember=False,
    )


def test_a_round_on_such_a_sample_ends_with_the_reason() -> None:
    task = Task(model=lambda: nn.Linear(2, 2), loss=nn.CrossEntropyLoss(), train_data=Rows(1))
    client = Client(FlatModel(task, seed=0), task.train, np.arange(6), seed=0)
    with pytest.raises(InvalidInput, match=r"Task\.train_data\[1\], a sample of client 3"):
        client.run_round(order(client.model), ClientState())


def test_a_model_that_diverges_on_sound_data_is_sent() -> None:
    """The server refuses it, and goes on with the others."""
    task = Task(
        model=lambda: nn.Linear(2, 1),
        loss=lambda outputs, targets: (outputs[:, 0] - targets).square().mean(),
        train_data=Rows(),
    )
    client = Client(FlatModel(task, seed=0), task.train, np.arange(6), seed=0)
    reply = client.run_round(order(client.model, learning_rate=1e30), ClientState())
    assert not torch.isfinite(reply.weights).all()
