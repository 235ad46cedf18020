import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.samples import JoinedSamples
from dynamite_fl.task.task import Task

INPUTS, LABELS = torch.rand(20, 3), torch.arange(20) % 2
TASK = Task(
    model=lambda: nn.Linear(3, 2),
    loss=nn.CrossEntropyLoss(),
    train_data=(INPUTS, LABELS),
    test_data=(INPUTS[:5], LABELS[:5]),
)


def step(model: nn.Module, batch: Any) -> Tensor:
    inputs, labels = batch
    loss: Tensor = (model(inputs).sum(1) - labels).square()
    return loss


class LearnedScale(nn.CrossEntropyLoss):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return super().forward(outputs * self.scale, targets)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model": nn.Linear(3, 2)}, r"Task\.model is a model: give a function .*lambda: Net\(\)"),
        ({"loss": None}, "Task needs either a loss or a training_step"),
        (
            {"loss": LearnedScale()},
            r"Task\.loss has weights of its own, which would not be trained",
        ),
        ({"training_step": step}, "Task needs either a loss or a training_step"),
        (
            {"train_clients": np.zeros(9, dtype=np.int64)},
            r"Task\.train_clients has 9 entries for 20",
        ),
        (
            {"train_data": [(INPUTS, LABELS)], "train_clients": np.zeros(20, dtype=np.int64)},
            r"list with one dataset for each client.*leave Task\.train_clients out",
        ),
        ({"labels": [1, 2]}, r"Task\.labels has 2 entries for 20 training samples"),
        ({"train_data": (INPUTS, LABELS[:3])}, r"Task\.train_data has 20 inputs, but 3 targets"),
        ({"test_data": INPUTS}, r"Task\.test_data is a Tensor without targets"),
    ],
)
def test_what_can_never_be_right_is_refused_with_one_line(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as failure:
        replace(TASK, **fields)
    assert "\n" not in str(failure.value)


def test_data_may_be_missing_until_it_is_used() -> None:
    bare = Task(model=lambda: nn.Linear(3, 2), loss=nn.CrossEntropyLoss())
    assert not bare.has_train_data
    assert not bare.has_test_data
    for name in ("train", "test"):
        with pytest.raises(InvalidInput, match=rf"give Task\.{name}_data"):
            getattr(bare, name)


@pytest.mark.parametrize(
    ("fields", "metrics"),
    [
        ({}, ["accuracy"]),
        ({"test_data": None}, ["accuracy"]),
        ({"train_data": TensorDataset(INPUTS, LABELS), "test_data": None}, ["accuracy"]),
        ({"metrics": []}, []),
        ({"metrics": ["rmse", "mae"]}, ["rmse", "mae"]),
        ({"loss": nn.MSELoss()}, []),
        ({"test_data": (INPUTS, INPUTS)}, []),  # probabilities of classes
        ({"test_data": (INPUTS, LABELS[:, None])}, []),
        ({"loss": None, "training_step": step}, []),
        ({"train_data": None, "test_data": None}, []),
    ],
)
def test_accuracy_is_the_default_where_targets_are_labels(
    fields: dict[str, Any], metrics: list[str]
) -> None:
    assert list(replace(TASK, **fields).all_metrics) == metrics


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"loss": nn.CrossEntropyLoss()}, "mean"),
        ({"loss": nn.CrossEntropyLoss(reduction="none")}, "mean"),
        ({"loss": None, "training_step": step}, "step"),
        ({"predict": lambda model, batch: (2 * model(batch[0]), batch[1])}, "doubled"),
    ],
)
def test_the_loss_of_a_batch(fields: dict[str, Any], expected: str) -> None:
    task = replace(TASK, **fields)
    model = task.new_model(0)
    batch = task.train.batch(np.arange(6))
    outputs = model(INPUTS[:6])
    losses = {
        "mean": nn.functional.cross_entropy(outputs, LABELS[:6]),
        "step": (outputs.sum(1) - LABELS[:6]).square().mean(),
        "doubled": nn.functional.cross_entropy(2 * outputs, LABELS[:6]),
    }
    torch.testing.assert_close(task.batch_loss(model, batch), losses[expected])


def with_numpy() -> nn.Module:
    model = nn.Linear(3, 2)
    model.bias.data.fill_(float(np.random.random()) + random.random())  # noqa: NPY002, S311
    return model


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(2))


@pytest.mark.parametrize("model", [lambda: nn.Linear(3, 2), with_numpy, lazy])
def test_a_new_model_depends_on_the_seed_and_leaves_generators_alone(
    model: Callable[[], nn.Module],
) -> None:
    task = replace(TASK, model=model)
    before = (torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate())  # noqa: NPY002
    states = [task.new_model(seed).state_dict() for seed in (1, 1, 2)]
    first, again, other = (torch.cat([v.reshape(-1) for v in s.values()]) for s in states)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    after = (torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate())  # noqa: NPY002
    assert after == before


def test_torchs_own_seed_gives_the_same_weights() -> None:
    torch.manual_seed(5)
    assert torch.equal(TASK.new_model(5).state_dict()["weight"], nn.Linear(3, 2).weight)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"train_data": None},
        {"train_data": TensorDataset(INPUTS, LABELS)},
        {"loss": None, "training_step": step},
    ],
)
def test_lazy_layers_get_their_shapes_from_the_data(fields: dict[str, Any]) -> None:
    model = replace(TASK, model=lazy, **fields).new_model(0)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert shapes["0.weight"] == (4, 3)
    assert shapes["1.running_mean"] == (4,)
    assert shapes["3.weight"] == (2, 4)
    assert int(model.state_dict()["1.num_batches_tracked"]) == 0
    assert model.training


def test_lazy_layers_need_data() -> None:
    with pytest.raises(InvalidInput, match=r"give Task\.test_data"):
        replace(TASK, model=lazy, train_data=None, test_data=None).new_model(0)


class Augmented(Dataset[Any]):
    """Draws from all three generators."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return torch.rand(3) + np.random.random() + random.random(), index % 2  # noqa: NPY002, S311


def test_making_a_task_leaves_generators_alone() -> None:
    before = (torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate())  # noqa: NPY002
    assert list(replace(TASK, train_data=Augmented(), test_data=None).all_metrics) == ["accuracy"]
    after = (torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate())  # noqa: NPY002
    assert after == before


def test_labels_are_those_given_or_those_of_the_data() -> None:
    assert TASK.train_labels().tolist() == LABELS.tolist()
    given = replace(TASK, labels=list(range(20)))
    assert given.train_labels().tolist() == list(range(20))


def test_a_list_says_which_client_each_sample_comes_from() -> None:
    task = replace(TASK, train_data=[(INPUTS[:7], LABELS[:7]), (INPUTS[7:], LABELS[7:])])
    assert task.has_own_data
    assert isinstance(task.train, JoinedSamples)
    assert task.owners is not None
    assert task.owners.tolist() == [0] * 7 + [1] * 13
    other = replace(task, train_data=[(INPUTS[:3], LABELS[:3]), (INPUTS[3:], LABELS[3:])])
    assert other.owners is not None
    assert other.owners.tolist() == [0] * 3 + [1] * 17
    assert replace(task, train_data=(INPUTS, LABELS)).owners is None
    assert not TASK.has_own_data
    owned = replace(TASK, train_clients=np.arange(20) % 4)
    assert owned.owners is owned.train_clients


def test_a_task_made_by_hand_has_no_source() -> None:
    assert TASK.source is None
    source = {"use": "module:function", "part": 3}
    named = replace(TASK, model=lazy, metrics=["accuracy"]).with_source(source)
    assert pickle.loads(pickle.dumps(named)).source == source  # noqa: S301  our own
    assert replace(named, penalty=1.0).source is None  # it cannot be made again from its source
