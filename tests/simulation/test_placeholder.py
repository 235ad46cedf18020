from dataclasses import dataclass, field

import torch
from torch import Tensor

from dynamite_fl.client.messages import ClientState
from dynamite_fl.client.probe import ProbeMemory
from dynamite_fl.simulation.placeholder import is_placeholder, placeholder


def test_a_placeholder_stands_for_a_state_without_its_tensors() -> None:
    memory = ProbeMemory(torch.arange(3).numpy(), torch.ones(4), 0.5, torch.ones(4), 0.7)
    state = ClientState(memory, 2.0)
    light = placeholder(state)
    assert is_placeholder(light)
    assert not is_placeholder(state)
    assert not is_placeholder(ClientState())
    assert placeholder(ClientState(None, 3.0)).gradient_variance == 3.0
    assert light.memory is not None
    assert light.memory.batch.size == 3


@dataclass(frozen=True, eq=False)
class StateOfAnOptimizer(ClientState):
    momentum: dict[str, list[Tensor]] = field(default_factory=dict)


def test_a_tensor_anywhere_in_a_state_stays_with_the_worker() -> None:
    state = StateOfAnOptimizer(gradient_variance=2.0, momentum={"layer": [torch.ones(4)]})
    light = placeholder(state)
    assert isinstance(light, StateOfAnOptimizer)
    assert is_placeholder(light)
    assert light.gradient_variance == 2.0
    assert not is_placeholder(state)
    assert state.momentum["layer"][0].tolist() == [1, 1, 1, 1]
    empty = StateOfAnOptimizer(gradient_variance=2.0)
    assert placeholder(empty) is empty
