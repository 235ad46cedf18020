"""The samples that arrive at a client while it trains."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.errors import NoSampleYet
from dynamite_fl.records import IntArray
from dynamite_fl.stream.buffer import Buffer

_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)


class IncomingSamples(Protocol):
    """The samples that arrive at a client while it trains."""

    def receive(
        self, round_index: int, buffer: Buffer | None, needed: IntArray
    ) -> tuple[Buffer, IntArray]:
        """Take in the samples that have arrived when a round begins.

        Args:
            round_index: The number of the round.
            buffer: The buffer after the client's last round; None before its first round.
            needed: Rows that must keep their samples even if they leave the buffer.

        Returns:
            The buffer when the round begins, and the rows in it that are new.
        """
        ...


@dataclass(frozen=True, eq=False)
class NewSamples:
    """The samples that have arrived since a client's last round.

    Attributes:
        rows: The rows of the new samples that were stored.
        share: The number of new samples, stored or not, divided by the number of all samples that
            have arrived so far.
    """

    rows: IntArray
    share: float


def take_in(
    incoming: IncomingSamples | None, order: Order, state: ClientState
) -> tuple[ClientState, NewSamples]:
    """Return a client's state with the samples that have arrived, and these samples.

    Args:
        incoming: The samples that arrive; None if the client has all its samples from the start.
        order: The order of the round that begins.
        state: The client's state after its last round.

    Raises:
        NoSampleYet: The client has no sample to learn from.
    """
    if incoming is None:
        return state, NewSamples(_NO_ROWS, 0.0)
    needed = _NO_ROWS if state.memory is None else state.memory.batch
    buffer, new_rows = incoming.receive(order.round_index, state.buffer, needed)
    if not buffer.rows.size:
        raise NoSampleYet(f"client {order.client} has no sample in round {order.round_index}")
    seen_before = 0 if state.buffer is None else state.buffer.seen
    share = (buffer.seen - seen_before) / buffer.seen
    return replace(state, buffer=buffer), NewSamples(new_rows, share)
