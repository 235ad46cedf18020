"""Models that people have: with memory, chance, shared, frozen, sparse and odd parts."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dynamite_fl as fl
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.task.task import Task
from tests.gallery.checks import check_workers_and_resumes

INPUTS = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
LABELS = (INPUTS.sum(dim=1) > 0).long()
ROUNDS = 3


def task_of(model: Any, samples: int = 60, **fields: Any) -> Task:
    data = {"train_data": (INPUTS[:samples], LABELS[:samples]), "test_data": (INPUTS, LABELS)}
    return Task(model=model, loss=nn.CrossEntropyLoss(), **{**data, **fields})


def train(task: Task, **settings: Any) -> fl.Result:
    usual: dict[str, Any] = {
        "devices": fl.Devices(samples_per_second=[100, 200, 400]),
        "limits": fl.Limits(
            deadline=1e6, budget=1e6, cost_per_sample=0, cost_per_round=1, rounds=ROUNDS
        ),
        "learning_rate": 0.1,
        "controller": fl.controllers.FedAvg(local_steps=3, batch_size=8),
    }
    return fl.train(task, **{**usual, **settings})


class ReplacedBuffers(nn.Module):
    """Puts new tensors in the place of its buffers in every call, as own code often does."""

    mean: Tensor
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(4, 2)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * x.detach().mean(dim=0)
        return self.output(x - self.mean / self.calls)  # type: ignore[no-any-return]


class UnsavedBuffer(nn.Module):
    """Has a buffer that is not part of its state, but changes what it computes."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(4, 2)
        self.register_buffer("mean", torch.zeros(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.mul_(0.5).add_(0.5 * x.detach().mean(dim=0))
        return self.output(x - self.mean)  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 6, num_layers=2, dropout=0.3, batch_first=True)
        self.gru = nn.GRU(6, 6, batch_first=True)
        self.output = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 2))

    def forward(self, x: Tensor) -> Tensor:
        states = self.gru(self.lstm(x[..., None])[0])[1]
        return self.output(states[-1])  # type: ignore[no-any-return]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.output = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.second(self.first(x).tanh()))  # type: ignore[no-any-return]


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.output, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(x)  # type: ignore[no-any-return]


def frozen_with_norm() -> nn.Module:
    first = nn.Linear(4, 4).requires_grad_(False)
    return nn.Sequential(first, nn.BatchNorm1d(4, momentum=None), nn.ReLU(), nn.Linear(4, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [ReplacedBuffers, UnsavedBuffer, Recurrent, Tied, Unused, frozen_with_norm]
)
def test_workers_and_interruptions_change_no_bit(model: Any, tmp_path: Path) -> None:
    task = task_of(model)
    adam = fl.Optimizer("AdamW", keep_state=True)
    check_workers_and_resumes(partial(train, task, optimizer=adam), task, tmp_path, ROUNDS)


def test_a_buffer_that_is_replaced_is_averaged() -> None:
    """With one device and all samples in every batch, the mean of the inputs is known."""
    limits = fl.Limits(deadline=1e6, budget=1e6, cost_per_sample=0, cost_per_round=1, rounds=2)
    result = train(
        task_of(ReplacedBuffers),
        devices=fl.Devices(samples_per_second=[100]),
        controller=fl.controllers.FedAvg(local_steps=3, batch_size=60),
        limits=limits,
    )
    mean = INPUTS[:60].mean(dim=0)
    torch.testing.assert_close(result.state_dict["mean"], mean * (1 - 0.5**6))
    assert int(result.state_dict["calls"]) == 0  # a counter is not averaged


def test_a_batch_of_one_sample_is_normalised_by_running_statistics() -> None:
    model = FlatModel(task_of(lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))), seed=0)
    one = (INPUTS[:1], LABELS[:1])
    loss, _ = model.gradient(model.first_weights, one)
    model.module.eval()
    assert loss == nn.functional.cross_entropy(model.module(one[0]), one[1])
    model.gradient(model.first_weights, (INPUTS[:2], LABELS[:2]))
    assert model.module[0].training  # type: ignore[index]


@pytest.mark.parametrize("controller", ["dynamite", "dynamite-feedback", "fedavg"])
def test_devices_with_one_sample_and_batch_normalisation(controller: str) -> None:
    task = task_of(lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)), samples=4)
    result = train(task, controller=controller)
    assert len(result.history) == ROUNDS
    assert all(record.refused == 0 for record in result.history)


def test_sparse_gradients_are_those_of_a_dense_embedding() -> None:
    words = torch.randint(10, (60, 3), generator=torch.Generator().manual_seed(0))

    def model(sparse: bool) -> nn.Module:
        return nn.Sequential(nn.Embedding(10, 2, sparse=sparse), nn.Flatten(), nn.Linear(6, 2))

    states = []
    for sparse in (True, False):
        data = (words, LABELS[:60])
        task = task_of(partial(model, sparse), train_data=data, test_data=data)
        clipped = fl.Optimizer("SGD", clip_norm=0.5)
        states.append(train(task, optimizer=clipped).state_dict)
    for name, values in states[0].items():
        torch.testing.assert_close(values, states[1][name])


def test_lazy_layers_get_their_shapes_from_the_first_sample() -> None:
    result = train(task_of(lambda: nn.LazyLinear(2)))
    assert isinstance(result.model, nn.Linear)
    assert result.model.in_features == 4


@pytest.mark.parametrize("workers", [1, 2])
def test_a_saved_model_has_the_mean_of_buffers_that_devices_keep(workers: int) -> None:
    """Devices have 10, 20 and 50 samples, whose means the buffer follows with half its weight."""
    sizes = [10, 20, 50]
    parts = torch.split(INPUTS, sizes), torch.split(LABELS, sizes)
    data = list(zip(*parts, strict=True))
    result = train(
        Task(model=ReplacedBuffers, loss=nn.CrossEntropyLoss(), train_data=data, test_data=data),
        buffers="local",
        controller=fl.controllers.FedAvg(local_steps=1, batch_size=80),
        workers=workers,
    )
    share = 1 - 0.5**ROUNDS  # every step is on all samples of a device
    kept = [share * part.mean(dim=0) for part in parts[0]]
    expected = sum(size / 80 * mean for size, mean in zip(sizes, kept, strict=True))
    assert torch.allclose(result.model.get_buffer("mean"), torch.as_tensor(expected), atol=1e-6)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


PLANNING = ("dynamite-feedback", "dynamite", "dynamite-static-tau", "dynamite-uniform")
OTHERS = ("uniform", "no-straggler", "dbfl", "cooptfl")


def train_expensively(controller: str, **fields: Any) -> fl.History:
    """Train where samples are so expensive that batches should be small."""
    sizes = [6, 30, 44]
    data = list(zip(torch.split(INPUTS, sizes), torch.split(LABELS, sizes), strict=True))
    task = task_of(normalised, **{"train_data": data, **fields})
    limits = fl.Limits(deadline=1e6, budget=6, cost_per_sample=0.01, cost_per_round=0.1, rounds=6)
    return train(task, controller=controller, limits=limits).history


@pytest.mark.parametrize("controller", [*PLANNING, *OTHERS])
def test_no_controller_chooses_tiny_batches_for_batch_normalisation(controller: str) -> None:
    for record in train_expensively(controller):
        first, *others = record.batch_sizes or ()
        assert first == 6  # all that the device has
        assert all(size is not None and size >= 8 for size in others)


def test_a_task_may_allow_tiny_batches() -> None:
    history = train_expensively("dynamite-feedback", least_batch=1)
    assert min(record.batch_least or 0 for record in history) < 8


def test_a_task_may_ask_for_larger_batches() -> None:
    model = FlatModel(task_of(normalised), seed=0)
    assert model.least_batch == 8
    assert FlatModel(task_of(normalised, least_batch=1), seed=0).least_batch is None
    linear = task_of(lambda: nn.Linear(4, 2), least_batch=32)
    assert FlatModel(linear, seed=0).least_batch == 32
    with pytest.raises(fl.InvalidInput, match=r"Task\.least_batch"):
        task_of(normalised, least_batch=0)
