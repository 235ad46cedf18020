"""The samples that reach each device round by round, and those that it stores."""

from functools import lru_cache

import numpy as np

from dynamite_fl.records import IntArray
from dynamite_fl.stream.arrivals import Arrivals
from dynamite_fl.stream.buffer import NOTHING, Buffer, Storage
from dynamite_fl.stream.order import Orders


class Streams:
    """The streams of all clients. ``Stream.build`` makes them.

    The stream of a client ends when all samples that can reach it have arrived.

    Args:
        arrivals: The number of samples that have arrived by each round.
        orders: The order in which they arrive.
        storage: The policy by which they are stored.
    """

    def __init__(self, arrivals: Arrivals, orders: Orders, storage: Storage) -> None:
        self.arrivals = arrivals
        self.storage = storage
        self._orders = orders
        self._rows = lru_cache(maxsize=256)(orders.rows)  # shuffling all samples takes a while

    def __reduce__(self) -> tuple[type["Streams"], tuple[Arrivals, Orders, Storage]]:
        """Pickle the streams without the cache."""
        return Streams, (self.arrivals, self._orders, self.storage)

    def seen(self, clients: IntArray, round_index: int) -> IntArray:
        """Return how many samples have reached each client by a round (D_i^k), (m,)."""
        sizes = np.array([self._orders.size(int(client)) for client in clients], dtype=np.int64)
        return np.minimum(self.arrivals.arrived(clients, round_index), sizes)

    def receive(
        self, client: int, round_index: int, buffer: Buffer | None
    ) -> tuple[Buffer, IntArray]:
        """Return the buffer of a client when a round begins, and the rows in it that are new.

        Args:
            client: The client.
            round_index: The round, counted from 1.
            buffer: The buffer in the client's last round; None before its first. Samples that
                arrived while the client was absent are stored now, with the same result.
        """
        before = buffer or NOTHING
        seen = int(self.seen(np.array([client]), round_index)[0])
        after, places = self.storage.take(client, before, self.history(client)[before.seen : seen])
        return after, after.rows[places]

    def history(self, client: int) -> IntArray:
        """Return the rows of all samples that ever reach a client, in order of arrival."""
        return self._rows(client)
