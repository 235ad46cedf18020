from dataclasses import replace

import numpy as np
import torch

from dynamite_fl.client.messages import ClientState
from dynamite_fl.client.probe import ProbeMemory
from dynamite_fl.records import Plan
from dynamite_fl.simulation.reused_batches import reused_batches
from dynamite_fl.training.engine import RoundOrder

NOTHING = torch.zeros(1)


def state(rows: int, *, is_used_up: bool = False) -> ClientState:
    """Return the state of a client whose last batch had so many rows."""
    memory = ProbeMemory(np.arange(rows), NOTHING, 0.5, NOTHING, 0.7)
    return ClientState(memory, memory_is_used_up=is_used_up)


def order(local_steps: int) -> RoundOrder:
    """Return the order of a charged probe to the clients 4, 1, 7 and 2, of 5 samples each."""
    plan = Plan(1, local_steps, np.full(4, 5), seconds=1, cost=1, bound=0, binding=())
    return RoundOrder(
        round_index=2,
        weights=NOTHING,
        plan=plan,
        cohort=np.array([4, 1, 7, 2]),
        learning_rate=0.1,
        probe=True,
        remember=True,
        path=False,
        begins=0.0,
        seconds_left=1.0,
    )


STATES = {1: state(8), 2: ClientState(), 7: state(3, is_used_up=True), 9: state(6)}


def test_clients_that_keep_a_batch_begin_with_it() -> None:
    reused = reused_batches(order(local_steps=2), STATES)
    assert reused.happens.tolist() == [False, True, True, False]
    assert reused.surplus.tolist() == [0, 3, -2, 0]


def test_at_one_local_step_a_batch_that_is_used_up_is_not_reused() -> None:
    assert reused_batches(order(1), STATES).happens.tolist() == [False, True, False, False]


def test_only_a_charged_probe_reuses_batches() -> None:
    for other in (replace(order(2), probe=False), replace(order(2), free_probes=True)):
        reused = reused_batches(other, STATES)
        assert not reused.happens.any()
        assert not reused.surplus.any()
