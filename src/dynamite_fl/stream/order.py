"""The order in which the samples of a client reach it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dynamite_fl._random import random_stream
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray

Order = Literal["iid", "balanced", "continuous"]
ORDERS: tuple[Order, ...] = get_args(Order)


@dataclass(frozen=True, eq=False)
class Orders:
    """The order of every client's samples. ``Stream`` checks its settings.

    Attributes:
        pool: The function from a client to the rows of the data that can reach it.
        labels: The labels of all the data, (D,). The order ``iid`` does not use them.
        order: ``iid`` shuffles the samples of each client. ``balanced`` shuffles them so that every
            class arrives equally often at any time, until it has no samples left; this is the
            paper's I.I.D. stream. ``continuous`` sorts them by class, with the classes in one
            random order for all clients.
        max_samples: The most samples that reach a client, drawn at random from its pool. None
            stands for all.
        seed: The seed of the draws.

    Example:
        >>> labels = np.array([0, 1, 2, 0, 1, 2])
        >>> orders = Orders(lambda client: np.arange(6), labels, "continuous")
        >>> [labels[orders.rows(client)].tolist() for client in (0, 1)]
        [[1, 1, 0, 0, 2, 2], [1, 1, 0, 0, 2, 2]]
    """

    pool: Callable[[int], IntArray]
    labels: NDArray[Any]
    order: Order
    max_samples: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order != "iid" and not _are_classes(self.labels):
            raise InvalidInput(
                f"stream.order {self.order!r} sorts samples by class and needs one whole-number "
                f"label for each, 0 or more, but the targets are {self.labels.dtype} of shape "
                f"{self.labels.shape}: use stream.order 'iid'"
            )

    def size(self, client: int) -> int:
        """Return how many samples reach a client in all."""
        size = self.pool(client).size
        return size if self.max_samples is None else min(size, self.max_samples)

    def rows(self, client: int) -> IntArray:
        """Return the rows of a client's samples in the order in which they arrive."""
        shuffled = random_stream(self.seed, "order", client).permutation(self.pool(client))
        if self.order == "balanced":
            turns = _place_in_class(self.labels[shuffled])
            shuffled = shuffled[np.argsort(turns, kind="stable")]
        shuffled = shuffled[: self.size(client)]
        if self.order != "continuous":
            return shuffled
        rank = self._rank_of_classes()
        return np.asarray(shuffled[np.argsort(rank[self.labels[shuffled]], kind="stable")])

    def _rank_of_classes(self) -> IntArray:
        classes = int(self.labels.max()) + 1
        return np.argsort(random_stream(self.seed, "classes").permutation(classes))


def _place_in_class(labels: NDArray[Any]) -> IntArray:
    """Return how many samples of the same class come before each sample, (n,).

    Example:
        >>> _place_in_class(np.array([2, 0, 2, 2, 0]))
        array([0, 0, 1, 2, 1])
    """
    by_class = np.argsort(labels, kind="stable")
    in_order = labels[by_class]
    first = np.searchsorted(in_order, in_order)
    places = np.empty(labels.size, dtype=np.int64)
    places[by_class] = np.arange(labels.size) - first
    return places


def _are_classes(labels: NDArray[Any]) -> bool:
    return labels.ndim == 1 and labels.dtype.kind in "iu" and labels.min(initial=0) >= 0
