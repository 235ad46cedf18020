"""A mistake in a task shows before any training, in one line."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from dynamite_fl.errors import InvalidInput, UserCodeError
from dynamite_fl.task.task import Task
from dynamite_fl.task.trial import try_task

INPUTS, LABELS = torch.ones(4, 3), torch.tensor([0, 1, 0, 1])
TASK = Task(
    name="signs",
    model=lambda: nn.Linear(3, 2),
    loss=nn.CrossEntropyLoss(),
    train_data=(INPUTS, LABELS),
    test_data=(INPUTS[:1], LABELS[:1]),
)
REGRESSION = replace(
    TASK,
    model=lambda: nn.Linear(3, 1),
    loss=nn.MSELoss(),
    train_data=(INPUTS, torch.rand(4, 1)),
    test_data=(INPUTS, torch.rand(4, 1)),
    metrics=["rmse"],
)


class Items(Dataset[Any]):
    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def net_with_shared_layer(*, freeze: bool = False) -> Callable[[], nn.Module]:
    layer = nn.Linear(3, 3).requires_grad_(not freeze)
    return lambda: nn.Sequential(layer, nn.Linear(3, 2))


def net_with_shared_table() -> Callable[[], nn.Module]:
    """A parameter of a model's own, which has the memory of a tensor that others have as well."""
    table = torch.ones(2, 3)

    def make() -> nn.Module:
        model = nn.Linear(3, 2)
        model.weight = nn.Parameter(table)
        return model

    return make


def step(model: nn.Module, batch: Any) -> Tensor:
    inputs, labels = batch
    return nn.functional.cross_entropy(model(inputs), labels)


@pytest.mark.parametrize(
    "task",
    [
        TASK,
        REGRESSION,
        replace(TASK, loss=nn.CrossEntropyLoss(reduction="none")),
        replace(TASK, loss=None, training_step=step, metrics=["accuracy"]),
        replace(TASK, train_data=Items((torch.ones(3), 1)), metrics=[]),
        replace(TASK, train_data=[(INPUTS, LABELS), Items((torch.ones(3), 1), (torch.ones(3), 0))]),
        replace(TASK, model=lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))),
        replace(TASK, model=net_with_shared_layer(freeze=True)),
        replace(
            TASK, model=lambda: nn.Sequential(nn.LazyLinear(5), nn.Dropout(), nn.LazyLinear(2))
        ),
    ],
)
def test_a_task_that_can_be_trained_passes_and_leaves_generators_alone(task: Task) -> None:
    numpy_state = str(np.random.get_state())  # noqa: NPY002
    before = (torch.random.get_rng_state().tolist(), numpy_state, random.getstate())
    try_task(task)
    numpy_state = str(np.random.get_state())  # noqa: NPY002
    assert (torch.random.get_rng_state().tolist(), numpy_state, random.getstate()) == before


def test_data_that_is_not_needed_may_be_missing() -> None:
    device, server = replace(TASK, test_data=None), replace(TASK, train_data=None)
    try_task(device, needs_test_data=False)
    try_task(server, needs_train_data=False)
    with pytest.raises(InvalidInput, match=r"the task has no test data: give Task\.test_data"):
        try_task(device)
    with pytest.raises(InvalidInput, match=r"the task has no training data: give Task\.train_data"):
        try_task(server)


def same_net() -> Callable[[], nn.Module]:
    net = nn.Linear(3, 2)
    return lambda: net


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": lambda *_: 1.0}, r"Task\.loss returned a float, not a tensor: return the mean"),
        ({"loss": lambda outputs, _: outputs}, r"returned torch\.float32 of the shape \(2, 2\)"),
        ({"loss": lambda outputs, _: outputs.argmax()}, r"returned torch\.int64 of the shape \(\)"),
        (
            {"loss": lambda outputs, _: outputs.sum() / 0},
            r"Task\.loss is -?(inf|nan) for the first",
        ),
        ({"loss": lambda outputs, _: outputs.detach().sum()}, "does not depend on a weight"),
        (
            {"loss": None, "training_step": lambda *_: None},
            "Task.training_step returned a NoneType",
        ),
        ({"model": lambda: "net"}, "Task.model returned a str: it must return an nn.Module"),
        ({"model": same_net()}, r"returns the same model each time.*copy\.deepcopy\(model\)"),
        ({"model": net_with_shared_layer()}, r"share the memory of 0\.weight.*copy\.deepcopy"),
        ({"model": net_with_shared_table()}, r"share the memory of weight.*tensor\.clone\(\)"),
        ({"train_data": Items(torch.ones(3))}, "a batch is a Tensor without targets"),
        ({"train_data": Items({"x": torch.ones(3)})}, "none of them is labels"),
        (
            {"train_data": Items((torch.ones(3), 1), (torch.ones(4), 1))},
            r"samples of different shapes cannot be stacked: give Task\.collate_fn",
        ),
        (
            {"train_data": Items((object(), 1))},
            r"samples cannot be made into tensors: give Task\.collate_fn",
        ),
        (
            {"metrics": {"each": lambda outputs, _: outputs}},
            r"metric each: a metric returned the shape \(1, 2\)",
        ),
    ],
)
def test_what_cannot_be_right_is_refused_with_one_line(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        try_task(replace(TASK, **changes))
    assert "\n" not in str(raised.value)


def sum_of_step(model: nn.Module, batch: Any) -> Tensor:
    return 2 * step(model, batch) * len(batch[0])


def step_with_gradient(model: nn.Module, batch: Any) -> Tensor:
    loss = step(model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


PROBABILITIES: dict[str, Any] = {
    "loss": nn.BCELoss(),
    "model": lambda: nn.Sequential(nn.Linear(3, 1), nn.Hardtanh(-2, -1)),
    "train_data": (INPUTS, LABELS[:, None].float()),
}
MEAN_OF_OUTPUTS: dict[str, Any] = {  # as many numbers as outputs, whatever the number of samples
    "loss": lambda outputs, _: outputs.square().mean(dim=0),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": lambda: nn.Linear(9, 2)}, r"on a batch of shapes \(2, 3\), \(2,\),.*of a layer"),
        ({"model": nn.Linear}, r"Task\.model failed: TypeError: .*it is called without arguments"),
        ({"train_data": (INPUTS.double(), LABELS)}, r"the model, on a batch.*inputs\.float\(\)"),
        ({"train_data": (INPUTS.half(), LABELS)}, r"the model, on a batch.*inputs\.float\(\)"),
        ({"train_data": (INPUTS.long(), LABELS)}, r"the model, on a batch.*inputs\.float\(\)"),
        ({"train_data": (INPUTS, LABELS + 0.5)}, r"Task\.loss, on outputs.*such as labels\.long"),
        ({"train_data": (INPUTS, LABELS.int())}, r"Task\.loss, on outputs.*such as labels\.long"),
        ({"train_data": (INPUTS, LABELS[:, None])}, r"Task\.loss, on outputs.*of the shape \(n,\)"),
        ({"train_data": (INPUTS, 7 * LABELS)}, "Target 7 is out of bounds: labels count from 0"),
        ({"train_data": (INPUTS, LABELS - 1)}, "Target -1 is out of bounds: labels count from 0"),
        ({"test_data": (INPUTS, 7 * LABELS)}, "Target 7 is out of bounds: labels count from 0"),
        ({"train_data": [(INPUTS, LABELS), (INPUTS, 7 * LABELS)]}, "Target 7 is out of bounds"),
        ({"train_data": ({"x": INPUTS}, LABELS)}, r"'x': it is called with the inputs of a batch"),
        ({"loss": nn.BCEWithLogitsLoss()}, r"targets must have the shape of the outputs"),
        ({"loss": lambda outputs: outputs.mean()}, "it is called with outputs and targets"),
        ({"metrics": {"f1": lambda: 1.0}}, "metric f1, .*: it is called with outputs and targets"),
        ({"model": lambda: nn.GRU(3, 2)}, r"must be Tensor, not tuple: .* Task\.predict"),
        ({"model": lambda: nn.Embedding(3, 2)}, r"an nn\.Embedding needs whole numbers"),
        ({"loss": nn.CrossEntropyLoss(reduction="sum")}, "returns the sum over a batch, not the m"),
        ({"loss": None, "training_step": sum_of_step}, r"Task\.training_step returns the sum over"),
        ({"loss": None, "training_step": step_with_gradient}, r"leave loss\.backward\(\) out"),
        ({"train_data": (INPUTS, torch.eye(2).long()[LABELS])}, r"targets\.argmax\(dim=1\), or"),
        ({"train_data": Items((torch.ones(3), "cat"), (torch.ones(3), "dog"))}, "number the class"),
        (PROBABILITIES, r"nn\.BCELoss takes probabilities: use nn\.BCEWithLogitsLoss"),
        ({"model": lambda: nn.Sequential(nn.Linear(3, 2), nn.Softmax(dim=1))}, "leave the softmax"),
        (MEAN_OF_OUTPUTS, r"returned torch\.float32 of the shape \(2,\) for 3 samples"),
    ],
)
def test_an_ordinary_mistake_is_one_line_that_says_what_to_change(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=f"{message}") as raised:
        try_task(replace(TASK, **changes))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16])
def test_targets_of_any_type_are_looked_at(dtype: torch.dtype) -> None:
    data = (INPUTS, LABELS.to(dtype))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, 0] - targets.float()).square().mean()

    try_task(replace(TASK, train_data=data, test_data=data, loss=loss, metrics=[]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predict": lambda model, batch: model(batch[0])}, "predict returned a Tensor: it must"),
        ({"train_data": (INPUTS, LABELS.bool())}, r"Task\.loss, .*labels\.long\(\)"),
        (
            {
                "model": lambda: nn.Linear(3, 5),
                "train_data": (torch.ones(4, 6, 3), torch.ones(4, 6).long()),
                "test_data": (torch.ones(4, 6, 3), torch.ones(4, 6).long()),
            },
            r"Expected target size .* the second dimension",
        ),
        (
            {
                "model": lambda: nn.Sequential(nn.Linear(3, 1), nn.Sigmoid()),
                "loss": nn.BCELoss(),
                "train_data": (INPUTS, LABELS[:, None].float()),
                "test_data": (INPUTS, LABELS[:, None].float()),
                "metrics": ["binary_accuracy"],
            },
            r"outputs are probabilities: leave the sigmoid out",
        ),
    ],
)
def test_mistakes_that_once_gave_a_traceback_or_a_wrong_number(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        try_task(replace(TASK, **changes))


class Noisy(Dataset[Any]):
    """A dataset with noise, from a generator of its own or from the one of NumPy."""

    def __init__(self, *, own: bool) -> None:
        self.draw = np.random.default_rng(0).random if own else np.random.random

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return INPUTS[index] + self.draw(), index % 2


def test_randomness_that_cannot_be_seeded_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"Task\.train_data draws random numbers from a generator"):
        try_task(replace(TASK, train_data=Noisy(own=True)))
    try_task(replace(TASK, train_data=Noisy(own=False)))


def test_a_metric_is_tried_on_both_classes_if_there_are_both() -> None:
    """An AUC is not defined on samples of one class."""

    def auc(outputs: Tensor, labels: Tensor) -> float:
        scores = outputs[:, 1] - outputs[:, 0]
        pairs = scores[labels == 1][:, None] - scores[labels == 0]
        return int((pairs > 0).sum()) / pairs.numel()

    labels = torch.tensor([0, 0, 0, 0, 1, 0, 0])
    data = (torch.rand(7, 3), labels)
    try_task(replace(TASK, train_data=data, test_data=data, metrics={"auc": auc}))


def column() -> nn.Module:
    return nn.Linear(3, 1)


def flat() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))


@pytest.mark.parametrize(("model", "targets"), [(flat, (4, 1)), (column, (4,))])
@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.L1Loss(), nn.functional.smooth_l1_loss])
def test_targets_of_another_shape_are_refused(
    model: Callable[[], nn.Module], targets: tuple[int, ...], loss: Any
) -> None:
    """Torch would compare each output with each target, and only warn."""
    data = (INPUTS, torch.rand(targets))
    with pytest.raises(InvalidInput, match=r"Task\.loss compares each output with each target"):
        try_task(replace(REGRESSION, model=model, loss=loss, train_data=data))


def by_hand(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def step_by_hand(model: nn.Module, batch: Any) -> Tensor:
    inputs, targets = batch
    return by_hand(model(inputs), targets)


@pytest.mark.parametrize(("model", "targets"), [(flat, (4, 1)), (column, (4,))])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (r"Task\.loss", {"loss": by_hand}),
        (r"Task\.training_step", {"loss": None, "training_step": step_by_hand}),
        (
            "metric close",
            {
                "loss": lambda o, t: by_hand(o.flatten(), t.flatten()),
                "metrics": {"close": lambda o, t: 1 - (o - t).square().mean()},
            },
        ),
    ],
)
def test_a_comparison_by_hand_of_different_shapes_is_refused(
    model: Callable[[], nn.Module], targets: tuple[int, ...], name: str, changes: dict[str, Any]
) -> None:
    """Torch says nothing here, and the training would learn the mean of all targets."""
    inputs = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    data = (inputs, torch.tensor([0.1, 0.2, 0.9, 0.4]).reshape(targets))
    task = replace(REGRESSION, model=model, train_data=data, test_data=data, metrics=[])
    with pytest.raises(InvalidInput, match=f"{name} compares each output with each target"):
        try_task(replace(task, **changes))
    try_task(replace(task, loss=lambda o, t: by_hand(o.flatten(), t.flatten())))


class TestMetricsThatNeedMoreSamples:
    GROUPS = torch.arange(300) % 3
    DATA = (torch.rand(300, 3), torch.arange(300) % 2)

    def by_group(self, outputs: Tensor, targets: Tensor) -> float:
        """The accuracy of the worst group; groups are known by place in the test data."""
        is_correct = outputs.argmax(1) == targets
        return min(float(is_correct[group == self.GROUPS].float().mean()) for group in range(3))

    def test_they_are_tried_on_all_test_data(self) -> None:
        task = replace(TASK, train_data=self.DATA, test_data=self.DATA)
        try_task(replace(task, metrics={"worst_group": self.by_group}))

    def test_they_are_refused_if_all_test_data_does_not_suffice(self) -> None:
        data = tuple(part[:299] for part in self.DATA)
        with pytest.raises((InvalidInput, UserCodeError), match="metric worst_group"):
            try_task(replace(TASK, test_data=data, metrics={"worst_group": self.by_group}))


class Positions(nn.Module):
    """A model with a constant in its state, as many a transformer has."""

    def __init__(self, *, persistent: bool) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(3)
        self.register_buffer("places", torch.rand(20), persistent=persistent)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(self.norm(inputs)) + self.get_buffer("places").sum()  # type: ignore[no-any-return]


def test_a_large_constant_in_the_state_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"change 50% of what .* buffer places: .*persistent=Fal"):
        try_task(replace(TASK, model=lambda: Positions(persistent=True)))
    try_task(replace(TASK, model=lambda: Positions(persistent=False)))


def fail(*_: object) -> Any:
    raise KeyError("no such label")


class Failing(Items):
    def __getitem__(self, index: int) -> Any:
        return fail(index)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": fail}, r"Task\.model failed: KeyError"),
        ({"loss": fail}, r"Task\.loss, on outputs.*KeyError: 'no such label'"),
        ({"loss": None, "training_step": fail}, r"Task\.training_step failed: KeyError"),
        ({"predict": fail}, r"Task\.predict failed: KeyError"),
        ({"train_data": Failing(1, 2), "metrics": []}, r"two samples of Task\.train_data failed"),
        ({"metrics": {"f1": fail}}, r"metric f1, on outputs of shape \(1, 2\), failed: KeyError"),
    ],
)
def test_an_exception_says_which_part_of_the_task_raised_it(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserCodeError, match=f"(?s){message}") as raised:
        try_task(replace(TASK, **changes))
    assert raised.value.__cause__ is not None
