"""Optimisers of local steps, against torch's own loop on the same batches."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from dynamite_fl._random import client_stream
from dynamite_fl.client.batches import BATCHES, draw_batches
from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.optimizer import NAMES, Optimizer, StateEntry, load_state, read_state
from dynamite_fl.errors import InvalidInput
from dynamite_fl.training.codec import from_bytes, to_bytes
from tests.models import CLASSES, FEATURES, data, task_of

SAMPLES, STEPS, SIZE, RATE = 40, 4, 8, 0.05
MAKE = Callable[..., torch.optim.Optimizer]


def deep() -> nn.Module:
    """Return a model without biases, because Muon takes matrices only."""
    first, last = nn.Linear(FEATURES, 5, bias=False), nn.Linear(5, CLASSES, bias=False)
    return nn.Sequential(first, nn.Tanh(), last)


TASK = task_of(deep, SAMPLES)


def batches_of(round_index: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches that client 0 draws in a round."""
    inputs, labels = data(SAMPLES)
    stream = client_stream(3, 0, round_index, BATCHES)
    for rows in draw_batches(stream, SAMPLES, [SIZE] * STEPS):
        yield inputs[rows], labels[rows]


def plain_round(model: nn.Module, optimizer: torch.optim.Optimizer, round_index: int = 1) -> None:
    """Train as every tutorial does."""
    for inputs, labels in batches_of(round_index):
        optimizer.zero_grad()
        torch.autograd.backward(nn.CrossEntropyLoss()(model(inputs), labels))
        optimizer.step()


def vector(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])


def our_round(
    optimizer: Optimizer,
    weights: Tensor | None = None,
    state: ClientState | None = None,
    round_index: int = 1,
) -> Reply:
    flat = FlatModel(TASK, seed=1)
    client = Client(flat, TASK.train, np.arange(SAMPLES), seed=3, optimizer=optimizer)
    weights = flat.first_weights if weights is None else weights
    order = Order(0, round_index, weights, STEPS, SIZE, RATE, probe=False, remember=False)
    return client.run_round(order, state or ClientState())


SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"betas": (0.8, 0.9), "amsgrad": True}),
    ("AdamW", {"weight_decay": 0.5}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
]


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_steps_are_those_of_torchs_own_loop(name: str, options: dict[str, Any]) -> None:
    model = TASK.new_model(seed=1)
    make: MAKE = getattr(torch.optim, name)
    plain_round(model, make(model.parameters(), lr=RATE, **options))
    reply = our_round(Optimizer(name, **options))
    assert torch.equal(reply.weights, vector(model))
    assert not torch.equal(reply.weights, FlatModel(TASK, seed=1).first_weights)
    assert reply.state.optimizer == ()


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_a_state_that_is_kept_goes_on_as_one_optimiser(name: str, options: dict[str, Any]) -> None:
    """Over three rounds, and through the form of a checkpoint after each."""
    model = TASK.new_model(seed=1)
    make: MAKE = getattr(torch.optim, name)
    optimizer = make(model.parameters(), lr=RATE, **options)
    weights, state = None, ClientState()
    for round_index in (1, 2, 3):
        plain_round(model, optimizer, round_index)
        reply = our_round(Optimizer(name, keep_state=True, **options), weights, state, round_index)
        weights, state = reply.weights, from_bytes(to_bytes(reply.state), ClientState)
    assert weights is not None
    assert torch.equal(weights, vector(model))


def test_a_state_that_is_not_kept_begins_anew() -> None:
    weights = None
    model = TASK.new_model(seed=1)
    for round_index in (1, 2, 3):
        plain_round(model, torch.optim.Adam(model.parameters(), lr=RATE), round_index)
        reply = our_round(Optimizer("Adam"), weights, round_index=round_index)
        weights = reply.weights
    assert weights is not None
    assert torch.equal(weights, vector(model))


def test_clipping_is_by_the_norm_of_the_whole_gradient() -> None:
    limit, model = 0.05, TASK.new_model(seed=1)
    factors = []
    for inputs, labels in batches_of(1):
        loss = nn.CrossEntropyLoss()(model(inputs), labels)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = float(torch.cat([part.reshape(-1) for part in gradients]).norm())
        factors.append(min(1.0, limit / norm))
        with torch.no_grad():
            for weight, gradient in zip(model.parameters(), gradients, strict=True):
                weight.sub_(RATE * factors[-1] * gradient)
    assert max(factors) < 1
    reply = our_round(Optimizer(clip_norm=limit))
    torch.testing.assert_close(reply.weights, vector(model), rtol=1e-5, atol=1e-7)
    unlimited = our_round(Optimizer(clip_norm=1e6)).weights
    assert torch.equal(unlimited, our_round(Optimizer()).weights)


def test_the_proximal_term_pulls_towards_the_global_model() -> None:
    """The gradient of mu/2 |w - v|^2 is mu (w - v), where v is the model of the round's start."""
    factor, model = 2.0, TASK.new_model(seed=1)
    start = [weight.detach().clone() for weight in model.parameters()]
    for inputs, labels in batches_of(1):
        loss = nn.CrossEntropyLoss()(model(inputs), labels)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for weight, gradient, first in zip(model.parameters(), gradients, start, strict=True):
                weight.sub_(RATE * (gradient + factor * (weight - first)))
    reply = our_round(Optimizer(proximal=factor))
    torch.testing.assert_close(reply.weights, vector(model), rtol=1e-5, atol=1e-7)
    first = FlatModel(TASK, seed=1).first_weights
    free = our_round(Optimizer()).weights
    assert (reply.weights - first).norm() < (free - first).norm()


def test_a_strong_proximal_term_keeps_the_model_in_place() -> None:
    first = FlatModel(TASK, seed=1).first_weights
    near = our_round(Optimizer(proximal=1 / RATE)).weights  # each step begins at the global model
    free = our_round(Optimizer()).weights
    assert (near - first).norm() < 0.5 * (free - first).norm()


def test_a_function_makes_any_optimiser() -> None:
    def two_rates(parameters: Any, learning_rate: float) -> torch.optim.Optimizer:
        first, last = parameters
        groups: list[dict[str, Any]] = [
            {"params": [last]},
            {"params": [first], "lr": learning_rate / 10},
        ]
        return torch.optim.SGD(groups, lr=learning_rate, momentum=0.9)

    model = TASK.new_model(seed=1)
    optimizer = two_rates(model.parameters(), RATE)
    weights, state = None, ClientState()
    for round_index in (1, 2):
        plain_round(model, optimizer, round_index)
        reply = our_round(Optimizer(two_rates, keep_state=True), weights, state, round_index)
        weights, state = reply.weights, reply.state
    assert weights is not None
    assert torch.equal(weights, vector(model))


@pytest.mark.parametrize(
    ("optimizer", "is_plain"),
    [
        (Optimizer(), True),
        (Optimizer("sgd", momentum=0.0, weight_decay=0), True),
        (Optimizer(keep_state=True), True),
        (Optimizer(momentum=0.9), False),
        (Optimizer(weight_decay=0.1), False),
        (Optimizer(maximize=True), False),
        (Optimizer(clip_norm=1.0), False),
        (Optimizer(proximal=0.1), False),
        (Optimizer("Adam"), False),
        (Optimizer(torch.optim.SGD), False),
    ],
)
def test_plain_steps(optimizer: Optimizer, is_plain: bool) -> None:
    assert optimizer.is_plain == is_plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "Adm"}, "there is no optimizer 'Adm': did you mean 'Adam'"),
        ({"name": "LBFGS"}, "there is no optimizer 'LBFGS': use one of"),
        ({"name": "SparseAdam"}, "there is no optimizer 'SparseAdam'"),
        ({"name": "Adam", "beta": (0.9, 0.9)}, "no option of Adam 'beta': did you mean 'betas'"),
        ({"momentun": 0.9}, "there is no option of SGD 'momentun': did you mean 'momentum'"),
        ({"params": []}, "there is no option of SGD 'params'"),
        ({"lr": 0.1}, r"optimizer\.lr is not used: set training\.learning_rate"),
        ({"momentum": -1}, "optimizer SGD cannot be made: Invalid momentum value: -1"),
        ({"momentum": "0.9"}, r"optimizer\.momentum is '0\.9': it must be a number"),
        ({"nesterov": True}, "cannot be made: Nesterov momentum requires a momentum"),
        ({"differentiable": True}, "optimizer SGD cannot take a step"),
        ({"clip_norm": 0}, r"optimizer\.clip_norm is 0: it must be a number above 0"),
        ({"proximal": -1}, r"optimizer\.proximal is -1"),
        ({"keep_state": 1}, r"optimizer\.keep_state is 1: use true or false"),
        ({"name": torch.optim.SGD, "momentum": 0.9}, "a name with options, or a function without"),
        ({"name": 3}, "a name with options, or a function without them"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Optimizer(**arguments)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *_: None, r"returned a NoneType: it must return a torch\.optim\.Optimizer"),
        (
            lambda weights, rate: torch.optim.LBFGS(weights, lr=rate),
            "LBFGS computes a loss several",
        ),
    ],
)
def test_functions_that_make_no_optimiser_are_refused(function: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        our_round(Optimizer(function))


def test_weights_that_an_optimiser_does_not_take_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"optimizer Muon cannot be made: .*2D parameters"):
        Optimizer("Muon").make([nn.Parameter(torch.zeros(3))], 0.1)


@pytest.mark.parametrize(
    "table",
    [
        {"name": "SGD"},
        {"name": "SGD", "momentum": 0.9, "nesterov": True},
        {"name": "AdamW", "betas": [0.8, 0.9], "clip_norm": 1.5, "proximal": 0.1},
        {"name": "Adam", "amsgrad": True, "keep_state": True},
    ],
)
def test_a_table_is_read_and_written(table: dict[str, Any]) -> None:
    optimizer = Optimizer.from_table(table)
    assert optimizer.to_table() == table
    assert Optimizer.from_table({**table, "name": table["name"].lower()}) == optimizer


@given(st.sampled_from(NAMES), st.booleans(), st.none() | st.floats(1e-3, 1e3), st.floats(0, 9))
def test_every_optimiser_survives_its_table(
    name: str, keep_state: bool, clip_norm: float | None, proximal: float
) -> None:
    optimizer = Optimizer(name, keep_state=keep_state, clip_norm=clip_norm, proximal=proximal)
    assert Optimizer.from_table(optimizer.to_table()) == optimizer


def test_the_table_of_a_function_names_it() -> None:
    def careful(weights: Any, rate: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(weights, rate)

    name = Optimizer(careful).to_table()["name"]
    assert name.startswith("made in Python: ")
    assert name.endswith("careful")


def test_a_state_is_a_copy_that_checkpoints_can_hold() -> None:
    weight = nn.Parameter(torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last))
    optimizer = torch.optim.Adam([weight], amsgrad=True)
    weight.grad = torch.rand_like(weight)
    optimizer.step()
    entries = read_state(optimizer)
    names = {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
    assert {entry.name for entry in entries} == names
    expected = {entry.name: entry.value.clone() for entry in entries}
    optimizer.step()
    state = from_bytes(to_bytes(ClientState(optimizer=entries)), ClientState)
    for entry in state.optimizer:
        assert entry.parameter == 0
        assert torch.equal(entry.value, expected[entry.name])
    fresh = torch.optim.Adam([weight], amsgrad=True)
    load_state(fresh, state.optimizer)
    assert torch.equal(fresh.state[weight]["exp_avg"], expected["exp_avg"])
    assert fresh.param_groups[0]["lr"] == 1e-3


def test_a_state_that_checkpoints_cannot_hold_is_refused() -> None:
    weight = nn.Parameter(torch.rand(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.state[weight]["history"] = [1, 2]
    with pytest.raises(InvalidInput, match=r"keeps a list as history.*keep_state = false"):
        read_state(optimizer)


def test_entries_without_a_value_are_left_out() -> None:
    weight = nn.Parameter(torch.rand(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    optimizer.state[weight].update(momentum_buffer=None, count=3)
    (entry,) = read_state(optimizer)
    assert isinstance(entry, StateEntry)
    assert (entry.name, int(entry.value)) == ("count", 3)
