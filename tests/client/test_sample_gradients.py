"""Sums over the gradients of single samples, with one backward pass per sample as the oracle."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dynamite_fl.client.flat_model import Compute, FlatModel
from dynamite_fl.client.probe import gradient_variance
from dynamite_fl.client.sample_gradients import sample_gradients
from dynamite_fl.errors import UserCodeError
from dynamite_fl.task.losses import squared_hinge
from dynamite_fl.task.registry import make_task
from dynamite_fl.task.response_norm import LocalResponseNorm
from dynamite_fl.task.task import Task
from tests.models import CLASSES, FEATURES, batch_norm_net, dropout_net, gru_net, task_of

SAMPLES = 7


def single_gradients(model: FlatModel, task: Task) -> Tensor:
    """Return the gradient of each sample, computed one after the other, (b, trained)."""
    rows = [np.array([row]) for row in range(SAMPLES)]
    weights = model.first_weights
    return torch.stack([model.gradient(weights, task.train.batch(row))[1] for row in rows]).double()


def check(task: Task) -> None:
    """Compare the sums of one pass, and the variance, with those of single gradients."""
    model = FlatModel(task, seed=0)
    expected = single_gradients(model, task)
    of_samples = sample_gradients(model)
    assert of_samples is not None
    model.load(model.first_weights)
    sums = of_samples.sums(task.train.batch(np.arange(SAMPLES)))
    if not task.penalty:
        assert sums.squares == pytest.approx(float(expected.square().sum()), rel=1e-5)
        length = torch.linalg.vector_norm(expected.sum(0))
        assert float(torch.linalg.vector_norm(sums.gradients)) == pytest.approx(float(length), 1e-5)
    found = gradient_variance(model, model.first_weights, task.train, np.arange(SAMPLES))
    assert found == pytest.approx(float(expected.var(dim=0).sum()), rel=1e-4)


def image_task(module: Callable[[], nn.Module], **fields: Any) -> Task:
    random = torch.Generator().manual_seed(0)
    images = torch.randn(SAMPLES, 2, 9, 8, generator=random)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=random)
    fields = {"loss": nn.CrossEntropyLoss(), **fields}
    return Task(model=module, train_data=(images, labels), **fields)


@settings(max_examples=30, deadline=None)
@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    bias=st.booleans(),
)
def test_any_shape_of_a_convolution(
    kernel: tuple[int, int], stride: int, padding: int, dilation: int, bias: bool
) -> None:
    def network() -> nn.Module:
        first = nn.Conv2d(2, 3, kernel, stride, padding, dilation, bias=bias)
        second = nn.Conv2d(3, 4, 2, padding=1)
        layers = [first, nn.Tanh(), second, LocalResponseNorm(4), nn.MaxPool2d(2), nn.Flatten()]
        return nn.Sequential(*layers, nn.LazyLinear(CLASSES, bias=bias))

    check(image_task(network))


@pytest.mark.parametrize(
    "task",
    [
        make_task("softmax", "digits"),
        make_task("svm", "digits"),  # its penalty adds the same to all gradients
        make_task("perceptron", "digits"),
        make_task("cnn", "digits"),
    ],
    ids=["softmax", "svm", "perceptron", "cnn"],
)
def test_the_models_of_the_package(task: Task) -> None:
    check(task)


def flat_net() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.ReLU(), nn.Linear(5, CLASSES))


def test_smoothed_labels_and_losses_of_each_sample() -> None:
    check(task_of(flat_net, loss=nn.CrossEntropyLoss(label_smoothing=0.2)))
    check(task_of(one_output, loss=squared_hinge))


def one_output() -> nn.Module:
    return nn.Linear(FEATURES, 1, bias=False)


def test_samples_with_several_rows() -> None:
    """Each of two places of a sample has logits (classes) and a label of its own."""

    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))

    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(SAMPLES, CLASSES, 4, generator=random)
    labels = torch.randint(CLASSES, (SAMPLES, 2), generator=random)
    check(Task(model=network, loss=nn.CrossEntropyLoss(), train_data=(inputs, labels)))
    labels[::2, 0] = -1  # the loss of a sample is then that of its other place
    ignoring = nn.CrossEntropyLoss(ignore_index=-1)
    check(Task(model=network, loss=ignoring, train_data=(inputs, labels)))


def test_named_inputs() -> None:
    inputs = torch.randn(SAMPLES, FEATURES, generator=torch.Generator().manual_seed(0))
    named = {"input": inputs}
    check(
        Task(
            model=flat_net,
            loss=nn.CrossEntropyLoss(),
            train_data=(named, inputs[:, :CLASSES].argmax(1)),
        )
    )


class TwoUses(nn.Module):
    """A module whose layers may be used in any way."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layer(inputs) + self.layer(2 * inputs)
        return outputs


def shared_net() -> nn.Module:
    shared = nn.Linear(FEATURES, FEATURES)
    return nn.Sequential(shared, nn.ReLU(), shared, nn.Linear(FEATURES, CLASSES))


def frozen_net() -> nn.Module:
    network = nn.Sequential(nn.Linear(FEATURES, 5), nn.Linear(5, CLASSES))
    network[0].requires_grad_(False)
    return network


def in_place_net() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.ReLU(inplace=True), nn.Linear(5, CLASSES))


def normalised_net() -> nn.Module:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(FEATURES, CLASSES))
    return nn.Sequential(layer)


@pytest.mark.parametrize(
    "network",
    [
        TwoUses,
        shared_net,
        frozen_net,
        in_place_net,
        normalised_net,
        dropout_net,
        batch_norm_net,
        gru_net,
    ],
)
def test_other_models_are_computed_sample_by_sample(network: Callable[[], nn.Module]) -> None:
    assert sample_gradients(FlatModel(task_of(network), seed=0)) is None


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 4, 3, groups=2),
        nn.Conv2d(2, 4, 3, padding="same"),
        nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(start_dim=2)),
    ],
    ids=["groups", "padding in words", "circular padding", "nested"],
)
def test_other_layers_are_computed_sample_by_sample(layer: nn.Module) -> None:
    def network() -> nn.Module:
        return nn.Sequential(layer, nn.Flatten(), nn.LazyLinear(CLASSES))

    model = FlatModel(image_task(network), seed=0)
    assert sample_gradients(model) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"loss": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))},
        {"loss": nn.CrossEntropyLoss(reduction="sum")},
        {"loss": lambda outputs, targets: nn.functional.cross_entropy(outputs, targets)},
        {"predict": lambda model, batch: (model(batch[0]), batch[1])},
    ],
    ids=["weighted", "sum", "own loss", "own predict"],
)
def test_other_losses_are_computed_sample_by_sample(fields: dict[str, Any]) -> None:
    """A weighted loss divides by the weights of the whole batch, for example."""
    assert sample_gradients(FlatModel(task_of(flat_net, **fields), seed=0)) is None


def test_lower_precision_is_computed_sample_by_sample() -> None:
    model = FlatModel(task_of(flat_net), 0, Compute(precision="bfloat16"))
    assert sample_gradients(model) is None


@pytest.mark.parametrize("kind", ["forward", "weight"])
def test_models_with_hooks_are_computed_sample_by_sample(kind: str) -> None:
    """A hook may change the outputs or the gradients."""

    def network() -> nn.Module:
        net = flat_net()
        last = net.get_submodule("2")
        if kind == "forward":
            last.register_forward_hook(lambda _module, _inputs, outputs: 3 * outputs)
        else:
            weight = last.get_parameter("weight")
            weight.register_hook(lambda gradient: 0 * gradient)  # type: ignore[no-untyped-call]
        return net

    assert sample_gradients(FlatModel(task_of(network), seed=0)) is None


def test_patches_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of one number, every sample is a part of its own."""
    monkeypatch.setattr("dynamite_fl.client.sample_gradients._NUMBERS_AT_ONCE", 1)
    test_any_shape_of_a_convolution()
    test_samples_with_several_rows()


def test_an_error_in_the_loss_is_told_as_the_users_own() -> None:
    model = FlatModel(task_of(flat_net), seed=0)
    of_samples = sample_gradients(model)
    assert of_samples is not None
    with pytest.raises(UserCodeError, match="a local step"):
        of_samples.sums((torch.zeros(2, FEATURES), torch.tensor([0, CLASSES])))


def test_many_samples_are_computed_in_parts() -> None:
    """The last part has fewer samples than the others."""
    task = task_of(flat_net)
    model = FlatModel(task, seed=0)
    found = gradient_variance(model, model.first_weights, task.train, np.arange(71))
    single = [
        model.gradient(model.first_weights, task.train.batch(np.array([row])))[1]
        for row in range(71)
    ]
    assert found == pytest.approx(float(torch.stack(single).double().var(dim=0).sum()), rel=1e-5)
