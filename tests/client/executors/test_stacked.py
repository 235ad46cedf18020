import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamite_fl.client.client import Client
from dynamite_fl.client.executors import stacked
from dynamite_fl.client.executors.stacked import can_be_stacked, run_stacked
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.partitioned import StreamedSamples
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.stream.arrivals import Smooth
from dynamite_fl.stream.buffer import Storage
from dynamite_fl.stream.order import Orders
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task import losses, models
from dynamite_fl.task.task import Task
from dynamite_fl.task.tensor_samples import TensorSamples

FEATURES = 12
SAMPLES = (9, 40, 1, 23, 80)  # of each client


def squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.sum(1) - targets).square() / 2


TASKS: dict[str, tuple[Callable[[], nn.Module], Callable[[Tensor, Tensor], Tensor], float]] = {
    "softmax": (lambda: models.softmax_regression(FEATURES, 10), losses.cross_entropy, 0.0),
    "svm": (lambda: models.support_vector_machine(FEATURES), losses.squared_hinge, 0.1),
    "wide": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 30)), squares, 0.01),
    "perceptron": (lambda: models.perceptron(FEATURES, 10, hidden=7), losses.cross_entropy, 0.0),
    "deep": (lambda: _deep(), squares, 0.01),
}


def _deep() -> nn.Module:
    """Three layers, the second without bias."""
    first, second, third = nn.Linear(FEATURES, 6), nn.Linear(6, 5, bias=False), nn.Linear(5, 2)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), third)


def make_clients(name: str, dtype: torch.dtype = torch.float32) -> list[Client]:
    model, loss, penalty = TASKS[name]
    random = torch.Generator().manual_seed(1)
    inputs = torch.randn(sum(SAMPLES), 1, 3, 4, generator=random, dtype=dtype)
    targets = torch.randint(0, 10, (sum(SAMPLES),), generator=random)
    task = Task(
        name=name,
        model=lambda: model().to(dtype),
        loss=loss,
        train_data=(inputs, targets),
        penalty=penalty,
    )
    flat = FlatModel(task, seed=0)
    ends = np.cumsum(SAMPLES)
    settings = ProbeSettings(variance_samples=16, loss_rise=-1e9)
    return [
        Client(flat, task.train, np.arange(end - size, end), seed=5, settings=settings)
        for end, size in zip(ends, SAMPLES, strict=True)
    ]


def make_orders(
    weights: Tensor, round_index: int, local_steps: int, sizes: list[int], probe: bool
) -> list[Order]:
    return [
        Order(
            client,
            round_index,
            weights,
            local_steps,
            size,
            learning_rate=0.1,
            probe=probe,
            remember=probe,
        )
        for client, size in enumerate(sizes)
    ]


def assert_close(found: object, expected: object, absolute: float = 1e-6) -> None:
    if expected is None or found is None:
        assert found is expected
    else:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=absolute, equal_nan=True)


def assert_same(found: Reply, expected: Reply) -> None:
    assert_close(found.weights, expected.weights)
    assert_close(found.gradient, expected.gradient)
    assert_close(found.gradient_variance, expected.gradient_variance)
    assert found.measured_samples == expected.measured_samples
    assert (found.figures is None) == (expected.figures is None)
    if found.figures is not None and expected.figures is not None:
        # differences of nearly equal losses: in single precision no digit of them may be right
        absolute = 1e-10 if found.weights.dtype == torch.float64 else 1e-2
        for name, value in vars(expected.figures).items():
            assert_close(getattr(found.figures, name), value, absolute)
    assert_close(found.state.gradient_variance, expected.state.gradient_variance)
    ours, theirs = found.state.memory, expected.state.memory
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        np.testing.assert_array_equal(ours.batch, theirs.batch)
        for name in ("weights", "loss", "gradient", "first_loss"):
            assert_close(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("at_once", [1, 20 * FEATURES, 2**19])  # one by one, some, all
def test_replies_are_those_of_each_client_alone(
    name: str, dtype: torch.dtype, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacked, "_INPUTS_AT_ONCE", at_once)
    clients = make_clients(name, dtype)
    weights = clients[0].model.first_weights
    states = [ClientState() for _ in clients]
    plans = [(2, [3, 60, 1, 7, 30]), (1, [9, 8, 5, 23, 2]), (3, [4, 4, 4, 4, 4]), (1, [2] * 5)]
    measured = []
    for round_index, (steps, sizes) in enumerate(plans, start=1):
        orders = make_orders(weights, round_index, steps, sizes, probe=True)
        expected = [c.run_round(o, s) for c, o, s in zip(clients, orders, states, strict=True)]
        found = run_stacked(clients, orders, states)
        for ours, theirs in zip(found, expected, strict=True):
            assert_same(ours, theirs)
        states = [reply.state for reply in expected]
        weights = torch.stack([reply.weights for reply in expected]).mean(0)
        measured.append(sum(reply.measured_samples > 0 for reply in expected))
    assert measured[0] == len(clients)
    assert sum(measured[1:]) > 0  # some rose, and were measured anew


@pytest.mark.parametrize("name", TASKS)
def test_replies_are_those_of_each_client_alone_where_data_streams(name: str) -> None:
    """Probed and unprobed rounds, with and without arrivals; client 2 has one sample for good."""
    clients = make_clients(name, torch.float64)
    orders_of = Orders(lambda client: clients[client].indices, np.zeros(0, dtype=np.int64), "iid")
    streams = Streams(Smooth(initial=1, size=9, every=2), orders_of, Storage("reservoir", 20))
    clients = [
        replace(client, incoming=StreamedSamples(streams, place))
        for place, client in enumerate(clients)
    ]
    weights = clients[0].model.first_weights
    states = [ClientState() for _ in clients]
    drifted = 0
    for round_index, probe in enumerate((True, True, False, True, True, False), start=1):
        orders = make_orders(weights, round_index, 1 + round_index % 2, [4, 60, 1, 7, 3], probe)
        orders = [replace(order, remember=True) for order in orders]
        expected = [c.run_round(o, s) for c, o, s in zip(clients, orders, states, strict=True)]
        for ours, theirs in zip(run_stacked(clients, orders, states), expected, strict=True):
            assert_same(ours, theirs)
            assert ours.samples == theirs.samples
            drifted += theirs.figures is not None and theirs.figures.drift != 0
        states = [reply.state for reply in expected]
        weights = torch.stack([reply.weights for reply in expected]).mean(0)
    assert drifted == 4 + 4 - 1  # rounds 2 and 4; the first client has all its nine by round 2


def test_without_probe_nothing_is_measured_or_remembered() -> None:
    clients = make_clients("softmax")
    orders = make_orders(clients[0].model.first_weights, 1, 2, [5] * 5, probe=False)
    states = [ClientState() for _ in clients]
    for client, order, found in zip(
        clients, orders, run_stacked(clients, orders, states), strict=True
    ):
        assert_same(found, client.run_round(order, ClientState()))
        assert found.state.memory is None


def test_a_client_s_reply_does_not_depend_on_who_else_is_there() -> None:
    clients = make_clients("softmax")
    orders = make_orders(clients[0].model.first_weights, 1, 3, [3, 9, 1, 7, 30], probe=True)
    everyone = run_stacked(clients, orders, [ClientState()] * 5)
    (alone,) = run_stacked(clients[3:4], orders[3:4], [ClientState()])
    assert_same(alone, everyone[3])


def test_one_client_s_bad_data_stay_its_own() -> None:
    clients = make_clients("softmax")
    samples = clients[0].samples
    assert isinstance(samples, TensorSamples)
    samples.inputs[clients[0].indices] = 3e38  # finite, but too large for the model
    orders = make_orders(clients[0].model.first_weights, 1, 2, [3, 9, 1, 7, 30], probe=True)
    bad, *others = run_stacked(clients, orders, [ClientState()] * 5)
    assert not torch.isfinite(bad.weights).all()
    assert all(torch.isfinite(reply.weights).all() for reply in others)


def test_earlier_replies_are_left_alone() -> None:
    clients = make_clients("svm")
    weights = clients[0].model.first_weights
    states = [ClientState()] * 5
    first = run_stacked(clients, make_orders(weights, 1, 2, [4] * 5, probe=True), states)
    kept = [reply.weights.clone() for reply in first]
    states = [reply.state for reply in first]
    run_stacked(clients, make_orders(first[0].weights, 2, 2, [4] * 5, probe=True), states)
    assert all(torch.equal(a.weights, b) for a, b in zip(first, kept, strict=True))


def test_no_clients_no_replies() -> None:
    assert run_stacked([], [], []) == []


def test_other_models_are_refused() -> None:
    client = make_clients("softmax")[0]
    task = replace(client.model.task, model=lambda: nn.Linear(4, 10))
    other = replace(client, model=FlatModel(task, seed=0))
    orders = make_orders(other.model.first_weights, 1, 1, [2], probe=False)
    with pytest.raises(ValueError, match="not of linear layers and ReLUs"):
        run_stacked([other], orders, [ClientState()])


def test_only_small_models_are_stacked(monkeypatch: pytest.MonkeyPatch) -> None:
    client = make_clients("perceptron")[0]
    assert can_be_stacked(client.model, client.samples, Optimizer())
    monkeypatch.setattr(stacked, "_LARGEST_MODEL", len(client.model) - 1)
    assert not can_be_stacked(client.model, client.samples, Optimizer())


X = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(30) % 3


def stackable(
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    model: Callable[[], nn.Module] = lambda: nn.Linear(4, 3),
    targets: Tensor = LABELS,
    optimizer: Optimizer | None = None,
) -> bool:
    task = Task(model=model, loss=loss or nn.CrossEntropyLoss(), train_data=(X, targets))
    return can_be_stacked(FlatModel(task, seed=0), task.train, optimizer or Optimizer())


def mean_of_each_class(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - nn.functional.one_hot(targets, 3)).square().mean(0)


def compared_with_the_batch(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return a loss of each sample that depends on the others, as contrastive losses do."""
    return losses.cross_entropy(outputs - outputs.mean(0), targets)


def drawn(outputs: Tensor, targets: Tensor) -> Tensor:
    return losses.cross_entropy(outputs, targets) * torch.rand(len(targets))


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(),
        nn.CrossEntropyLoss(reduction="none"),
        nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.functional.cross_entropy,
        losses.cross_entropy,
        lambda outputs, targets: (outputs[:, 0] - targets).square(),
    ],
)
def test_losses_of_each_sample_are_stacked(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert stackable(loss)


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(reduction="sum"),
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])),
        nn.CrossEntropyLoss(ignore_index=0),  # the mean is over the other classes only
        lambda outputs, targets: (outputs[:, 0] - targets).square().mean(),
        mean_of_each_class,
        compared_with_the_batch,
        drawn,
    ],
)
def test_other_losses_are_not(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    before = torch.random.get_rng_state()
    assert not stackable(loss)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_labels_that_are_ignored_are_not_stacked() -> None:
    assert not stackable(targets=torch.where(LABELS == 1, -100, LABELS))


def doubled() -> nn.Module:
    """Return a model whose hook changes outputs."""
    model = nn.Sequential(nn.Linear(4, 3))
    model.register_forward_hook(lambda _module, _inputs, outputs: 2 * outputs)
    return model


def with_gradients_changed() -> nn.Module:
    model: Any = nn.Linear(4, 3)
    model.weight.register_hook(torch.zeros_like)
    return cast(nn.Module, model)


def with_another_forward() -> nn.Module:
    model: Any = nn.Linear(4, 3)
    original = model.forward
    model.forward = lambda inputs: 2 * original(inputs)
    return cast(nn.Module, model)


@pytest.mark.parametrize("model", [doubled, with_gradients_changed, with_another_forward])
def test_models_that_compute_more_than_their_layers_are_not(model: Callable[[], nn.Module]) -> None:
    assert not stackable(model=model)


@pytest.mark.parametrize(
    "optimizer", [Optimizer("Adam"), Optimizer(clip_norm=1.0), Optimizer(proximal=0.1)]
)
def test_only_plain_steps_are_stacked(optimizer: Optimizer) -> None:
    assert not stackable(optimizer=optimizer)


def test_a_race_has_the_same_winner_alone_and_stacked() -> None:
    clients = make_clients("perceptron", torch.float64)
    states = [ClientState() for _ in clients]
    orders = make_orders(clients[0].model.first_weights, 1, 2, [8] * 5, probe=False)
    racing = [
        replace(order, rate_trial="adopt", race=order.client % 2 == 0, learning_rate=0.001)
        for order in orders
    ]
    alone = [c.run_round(o, s) for c, o, s in zip(clients, racing, states, strict=True)]
    together = run_stacked(clients, racing, states)
    for found, expected, order in zip(together, alone, racing, strict=True):
        assert_same(found, expected)
        assert found.learning_rate == pytest.approx(expected.learning_rate)
        assert math.isnan(expected.race_factor) is not order.race
        assert_close(torch.tensor(found.race_factor), torch.tensor(expected.race_factor))
