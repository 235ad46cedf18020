"""What a module holds beside its weights, and how it is put back."""

import copy
import pickle
import random
from collections import deque
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamite_fl._random import client_stream
from dynamite_fl.client.batches import MODEL
from dynamite_fl.client.module_state import ModuleState
from dynamite_fl.task.keyed_random import keyed_random


class Holding(nn.Module):
    """A module that holds something beside its weights."""

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        for name, value in values.items():
            setattr(self, name, value)


def test_what_was_assigned_is_put_back() -> None:
    hidden = torch.zeros(3)
    module: Any = Holding(count=0, hidden=None, cache=hidden, name="first")
    state = ModuleState(module)
    for _ in range(2):
        module.count, module.hidden, module.cache = 7, torch.ones(2), torch.ones(9)
        module.layer.extra = "new"
        module.layer.eval()
        del module.name
        state.restore()
        assert (module.count, module.hidden, module.name) == (0, None, "first")
        assert module.cache is hidden
        assert not hasattr(module.layer, "extra")
        assert module.layer.training


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (torch.arange(3.0), lambda value: value.add_(1)),
        ([1, 2], lambda value: value.append(3)),
        ({"a": 1}, lambda value: value.update(a=2, b=3)),
        ({1, 2}, lambda value: value.add(3)),
        (deque([1, 2], maxlen=2), lambda value: value.append(3)),
    ],
)
def test_what_was_changed_inside_is_put_back_in_the_same_object(value: Any, change: Any) -> None:
    """Others may hold the same object, such as a hook."""
    expected = str(value)
    module: Any = Holding(value=value)
    state = ModuleState(module)
    for _ in range(2):
        change(value)
        assert str(value) != expected
        state.restore()
        assert module.value is value
        assert str(value) == expected


def test_buffers_are_put_back_whether_changed_or_replaced() -> None:
    module: Any = Holding()
    module.register_buffer("count", torch.tensor(3))
    module.register_buffer("mean", torch.tensor([1.0, 2.0]))
    module.register_buffer("cache", None, persistent=False)
    state, mean = ModuleState(module), module.mean
    for _ in range(2):
        module.count.add_(4)
        module.mean = torch.ones(9)
        module.cache = torch.ones(1)
        module.layer.register_buffer("new", torch.ones(1))
        state.restore()
        assert int(module.count) == 3
        assert module.mean is mean
        assert mean.tolist() == [1.0, 2.0]
        assert module.cache is None
        assert "new" not in dict(module.layer.named_buffers())


def test_a_weight_is_trained_again_and_keeps_its_value() -> None:
    module: Any = Holding()
    module.layer.bias.requires_grad_(False)
    state = ModuleState(module)
    module.layer.weight.requires_grad_(False).fill_(5.0)
    module.layer.bias.requires_grad_(True)
    state.restore()
    assert module.layer.weight.requires_grad
    assert not module.layer.bias.requires_grad
    assert (module.layer.weight == 5.0).all()


def test_parts_that_are_shared_stay_shared() -> None:
    shared: Any = nn.BatchNorm1d(2)
    module = nn.Sequential(shared, nn.Linear(2, 2), shared)
    state = ModuleState(module)
    module(torch.rand(4, 2))
    state.restore()
    assert module[0] is module[2]
    assert int(shared.num_batches_tracked) == 0
    assert torch.equal(shared.running_var, torch.ones(2))


@pytest.mark.parametrize(
    "kind", [nn.GRU, nn.LSTM, nn.MultiheadAttention, nn.TransformerEncoderLayer]
)
def test_layers_of_torch_compute_the_same_afterwards(kind: Any) -> None:
    torch.manual_seed(0)
    module = kind(4, 2) if kind in (nn.GRU, nn.LSTM) else kind(4, 2, dropout=0.0)
    inputs = torch.rand(3, 2, 4)
    arguments = (inputs, inputs, inputs) if kind is nn.MultiheadAttention else (inputs,)

    def outputs() -> Tensor:
        result = module(*arguments)
        first: Tensor = result[0] if isinstance(result, tuple) else result
        torch.autograd.backward(first.sum())
        return first.detach()

    expected = outputs()
    ModuleState(module).restore()
    assert torch.equal(outputs(), expected)


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  our own


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_of_a_recurrent_layer_and_its_state(copied: Any) -> None:
    inputs = torch.rand(3, 2, 4)
    layer = nn.GRU(4, 2)
    ours, state = copied((layer, ModuleState(layer)))
    state.restore()
    assert torch.equal(ours(inputs)[0], layer(inputs)[0])


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_of_module_and_state_is_put_back_by_itself(copied: Any) -> None:
    """As on Ray, where other processes get both."""
    module: Any = Holding(count=0, seen=[1])
    module.register_buffer("mean", torch.zeros(2))
    ours, state = copied((module, ModuleState(module)))
    ours.count, ours.mean, ours.extra = 5, torch.ones(2), "new"
    ours.seen.append(2)
    module.count = 7
    state.restore()
    assert (ours.count, ours.seen, ours.mean.tolist()) == (0, [1], [0.0, 0.0])
    assert not hasattr(ours, "extra")
    assert module.count == 7


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (torch.Generator(), lambda own: float(torch.rand((), generator=own))),
        (np.random.default_rng(3), lambda own: own.random()),
        (np.random.Generator(np.random.MT19937(3)), lambda own: own.random()),
        (random.Random(3), lambda own: own.random()),  # noqa: S311
    ],
)
def test_generators_of_a_module_are_seeded_by_those_of_a_round(generator: Any, draw: Any) -> None:
    state = ModuleState(Holding(generator=generator))

    def drawn(round_index: int) -> float:
        stream = client_stream(0, client=1, round_index=round_index, purpose=MODEL)
        with keyed_random(stream, torch.device("cpu")):
            state.restore()
            return draw(generator)  # type: ignore[no-any-return]

    first = drawn(1)
    draw(generator)
    assert drawn(1) == first
    assert drawn(2) != first
