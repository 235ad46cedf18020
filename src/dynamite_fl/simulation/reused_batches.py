"""The batches of earlier rounds with which clients begin a round that has a probe."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynamite_fl.client.messages import ClientState
from dynamite_fl.records import BoolArray, FloatArray
from dynamite_fl.training.engine import RoundOrder


@dataclass(frozen=True, eq=False)
class ReusedBatches:
    """Which clients of a cohort begin a round with the last batch of their last round.

    Attributes:
        happens: Whether the client begins with such a batch, (m,).
        surplus: By how many samples that batch is larger than planned, (m,); negative if it is
            smaller.
    """

    happens: BoolArray
    surplus: FloatArray


def reused_batches(order: RoundOrder, states: Mapping[int, ClientState]) -> ReusedBatches:
    """Return the batches that are reused in a round.

    Clients reuse a batch in a round with a probe that is charged, and then send its gradient.

    Args:
        order: The order of the round.
        states: The states of clients, by their places in the fleet.
    """
    happens, surplus = np.zeros(order.cohort.size, dtype=bool), np.zeros(order.cohort.size)
    if not order.reuses_batches:
        return ReusedBatches(happens, surplus)
    for place, (client, size) in enumerate(zip(order.cohort, order.plan.batch_sizes, strict=True)):
        state = states.get(int(client), ClientState())
        memory = state.memory_to_reuse(reuses_batch=True, local_steps=order.plan.local_steps)
        if memory is not None:
            happens[place], surplus[place] = True, memory.batch.size - size
    return ReusedBatches(happens, surplus)
