"""What reaches each device, in which order, and what it keeps of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from dynamite_fl.chance import dice
from dynamite_fl.records import IntArray
from dynamite_fl.stream.arrival import Arrivals
from dynamite_fl.stream.buffer import NOTHING, Buffer, Storage
from dynamite_fl.stream.checks import require_whole

Order = Literal["iid", "continuous"]
ORDERS: tuple[Order, ...] = get_args(Order)


@dataclass(frozen=True, eq=False)
class Orders:
    """In which order a client's samples reach it.

    Attributes:
        pool: All samples that can reach a client, as rows of the data.
        labels: Of all the data, (D,).
        order: ``iid``, shuffled for each client; or ``continuous``, class after class, the
            classes in one random order for all clients.
        most: How many of the samples that can reach a client do, at most, drawn at random; all
            if None.
        seed: Of what is drawn.

    Example:
        >>> labels = np.array([0, 1, 2, 0, 1, 2])
        >>> everyone = Orders(lambda client: np.arange(6), labels, "continuous")
        >>> [labels[everyone.of(client)].tolist() for client in (0, 1)]
        [[1, 1, 0, 0, 2, 2], [1, 1, 0, 0, 2, 2]]
    """

    pool: Callable[[int], IntArray]
    labels: IntArray
    order: Order
    most: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.most is not None:
            require_whole("the stream's most", self.most, least=1)
        if self.order not in ORDERS:
            raise ValueError(f"the stream's order is {self.order!r}: use {' or '.join(ORDERS)}")
        if self.order == "continuous" and not _are_classes(self.labels):
            raise ValueError(
                "a continuous stream goes class by class, for which samples need labels 0, 1, ...: "
                "use stream.order iid"
            )

    def size(self, client: int) -> int:
        """How many samples reach a client in the end."""
        size = self.pool(client).size
        return size if self.most is None else min(size, self.most)

    def of(self, client: int) -> IntArray:
        """The client's samples, first come first."""
        shuffled = dice(self.seed, "order", client).permutation(self.pool(client))
        shuffled = shuffled[: self.size(client)]
        if self.order == "iid":
            return shuffled
        rank = self._rank_of_classes()
        return np.asarray(shuffled[np.argsort(rank[self.labels[shuffled]], kind="stable")])

    def _rank_of_classes(self) -> IntArray:
        classes = int(self.labels.max()) + 1
        return np.argsort(dice(self.seed, "classes").permutation(classes))


class Streams:
    """Every client's stream and its storage.

    A stream ends when all that can reach the client has; then no more arrives.

    Args:
        arrivals: When samples come.
        orders: Which ones.
        storage: What is kept of them.
    """

    def __init__(self, arrivals: Arrivals, orders: Orders, storage: Storage) -> None:
        self.arrivals = arrivals
        self.storage = storage
        self._orders = orders
        self._order = lru_cache(maxsize=256)(orders.of)  # a permutation of all takes a while

    def __reduce__(self) -> tuple[type["Streams"], tuple[Arrivals, Orders, Storage]]:
        """To be sent to other machines: what is remembered of orders stays behind."""
        return Streams, (self.arrivals, self._orders, self.storage)

    def seen(self, clients: IntArray, round_index: int) -> IntArray:
        """D_i^k, how many samples have arrived up to and including a round, (m,)."""
        most = np.array([self._orders.size(int(client)) for client in clients], dtype=np.int64)
        return np.minimum(self.arrivals.arrived(clients, round_index), most)

    def receive(
        self, client: int, round_index: int, buffer: Buffer | None
    ) -> tuple[Buffer, IntArray]:
        """The buffer when a round begins, and the rows in it that are new.

        What arrived while the client was away is taken in now; it makes no difference.
        """
        before = buffer or NOTHING
        seen = int(self.seen(np.array([client]), round_index)[0])
        after, places = self.storage.take(client, before, self.history(client)[before.seen : seen])
        return after, after.rows[places]

    def history(self, client: int) -> IntArray:
        """All that reaches a client in the end, first come first."""
        return self._order(client)


def _are_classes(labels: IntArray) -> bool:
    return labels.ndim == 1 and labels.dtype.kind in "iu" and labels.min(initial=0) >= 0
