"""The gradient variance of any model; ``test_client.py`` tests the other measurements by hand."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dynamite_fl._random import random_stream
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_steps import AutogradSteps
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.probe import gradient_variance
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.registry import make_task
from dynamite_fl.task.task import Task
from tests.models import (
    ALL,
    FEATURES,
    batch_norm_net,
    data,
    dropout_net,
    gru_net,
    tanh_net,
    task_of,
)

ROWS = np.arange(20)


def by_vmap(task: Task, module: nn.Module) -> float:
    """Return the trace of the covariance of the gradients that torch.func computes at once."""
    inputs, labels = task.train.batch(ROWS)
    weights = {name: weight.detach() for name, weight in module.named_parameters()}

    def loss(weights: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        outputs = functional_call(module, weights, (one[None],))
        return nn.functional.cross_entropy(outputs, label[None])

    gradients = vmap(grad(loss), (None, 0, 0))(weights, inputs, labels)
    flat = torch.cat([part.reshape(len(ROWS), -1) for part in gradients.values()], 1).double()
    return float(flat.var(dim=0).sum())


@pytest.mark.parametrize(
    "task", [make_task("perceptron", "digits"), make_task("cnn", "digits"), task_of(tanh_net)]
)
def test_it_is_that_of_torch_func(task: Task) -> None:
    model = FlatModel(task, seed=0)
    found = gradient_variance(model, model.first_weights, task.train, ROWS)
    assert found == pytest.approx(by_vmap(task, task.new_model(0)), rel=1e-4)


@pytest.mark.parametrize("count", [2, 3, 20])
def test_it_is_that_of_single_gradients(count: int) -> None:
    """A GRU works too, for which ``vmap`` does not."""
    task = task_of(gru_net)
    model = FlatModel(task, seed=0)
    single = [
        model.gradient(model.first_weights, task.train.batch(np.array([row])))[1]
        for row in range(count)
    ]
    expected = torch.stack(single).double().var(dim=0).sum()
    found = gradient_variance(model, model.first_weights, task.train, np.arange(count))
    assert found == pytest.approx(float(expected), rel=1e-6)


def test_of_one_sample_it_is_zero() -> None:
    for make in (tanh_net, batch_norm_net):
        model = FlatModel(task_of(make), seed=0)
        one = gradient_variance(model, model.first_weights, model.task.train, np.array([3]))
        assert one == 0.0


def test_with_batch_normalisation_it_is_twice_that_of_pairs() -> None:
    """The gradients of ten pairs, by a module of its own in training mode."""
    task = task_of(batch_norm_net)
    model = FlatModel(task, seed=0)
    rows = np.arange(21)  # the last one has no partner
    gradients = []
    for start, end in pairwise(range(0, 21, 2)):
        module = task.new_model(seed=0).train()
        inputs, labels = task.train.batch(rows[start:end])
        loss = nn.functional.cross_entropy(module(inputs), labels)
        parts = torch.autograd.grad(loss, list(module.parameters()))
        gradients.append(torch.cat([part.reshape(-1) for part in parts]).double())
    mean = torch.stack(gradients).mean(0)
    squares = [float((gradient - mean).square().sum()) for gradient in gradients]
    expected = 2 * sum(squares) / (len(gradients) - 1)
    found = gradient_variance(model, model.first_weights, task.train, rows)
    assert found == pytest.approx(expected, rel=1e-6)


def test_pairs_of_a_model_without_batch_normalisation_show_the_same_variance() -> None:
    """Why twice: a pair's gradient is the mean of two, so its covariance is half as large."""
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(800, FEATURES, generator=random)
    task = task_of(tanh_net, train_data=(inputs, inputs[:, :3].argmax(1)))
    model = FlatModel(task, seed=0)
    weights = model.first_weights
    each = gradient_variance(model, weights, task.train, np.arange(400))
    pairs = [
        model.gradient(weights, task.train.batch(np.array([row, row + 400])))[1]
        for row in range(400)
    ]
    twice = 2 * float(torch.stack(pairs).double().var(dim=0).sum())
    assert twice == pytest.approx(each, rel=0.1)


def test_dropout_counts_as_noise() -> None:
    """Gradients of the same sample differ by what is dropped; the key decides what that is."""
    model = FlatModel(task_of(dropout_net), seed=0)
    same = np.zeros(16, dtype=np.int64)

    def measured(purpose: str) -> float:
        with keyed_random(random_stream(0, purpose), torch.device("cpu")):
            return gradient_variance(model, model.first_weights, model.task.train, same)

    assert measured("a") == measured("a") > 0
    assert measured("a") != measured("b")
    still = FlatModel(task_of(tanh_net), seed=0)
    assert gradient_variance(still, still.first_weights, still.task.train, same) < 1e-10


@pytest.mark.parametrize("name", ALL)
def test_steps_measure_the_same_and_change_no_weight(name: str) -> None:
    task = task_of(ALL[name])
    model = FlatModel(task, seed=0)
    weights = torch.rand(len(model))
    with keyed_random(random_stream(0, "test"), torch.device("cpu")):
        expected = gradient_variance(model, weights, task.train, ROWS)
    steps = AutogradSteps(model, task.train, Optimizer("Adam"))
    with keyed_random(random_stream(0, "test"), torch.device("cpu")):
        assert steps.gradient_variance(weights, ROWS) == expected > 0
    assert torch.equal(model.read()[: model.trained], weights[: model.trained])


def test_a_batch_of_the_penalty_only_has_no_variance() -> None:
    """The penalty adds the same to the gradient of each sample."""
    inputs, labels = data()
    plain, penalised = task_of(tanh_net), task_of(tanh_net, penalty=3.0)
    found = [
        gradient_variance(model, model.first_weights, model.task.train, ROWS)
        for model in (FlatModel(plain, 0), FlatModel(penalised, 0))
    ]
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    same = (inputs[:1].repeat(20, 1), labels[:1].repeat(20))
    model = FlatModel(task_of(tanh_net, penalty=3.0, train_data=same), 0)
    assert gradient_variance(model, model.first_weights, model.task.train, ROWS) < 1e-10
