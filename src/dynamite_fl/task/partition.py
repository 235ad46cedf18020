"""The record of which client holds which training samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray


@dataclass(frozen=True, eq=False)
class Partition:
    """The rows of the training data that each client holds; the data itself is not copied.

    Attributes:
        order: Rows of the training data. Each client's rows are one contiguous part of this
            array. Parts may overlap.
        first: The position in ``order`` where each client's part begins, (n,).
        sizes: The number of rows of each client, (n,), at least 1.

    Example:
        >>> rows = np.arange(4)
        >>> shared = Partition(rows, first=np.array([0, 0]), sizes=np.array([4, 4]))
        >>> len(shared), shared.indices(1)
        (2, array([0, 1, 2, 3]))
    """

    order: IntArray
    first: IntArray
    sizes: IntArray

    def __post_init__(self) -> None:
        if self.first.shape != self.sizes.shape:
            raise InvalidInput("Partition.first and Partition.sizes must have the same length")
        empty = np.flatnonzero(self.sizes < 1)
        if empty.size:
            raise InvalidInput(
                f"{_some_clients(empty)} would hold no sample: "
                "use fewer clients, more samples or another partition"
            )
        if (self.first < 0).any() or (self.first + self.sizes > self.order.size).any():
            raise InvalidInput("Partition.first and Partition.sizes point outside Partition.order")
        for column in (self.order, self.first, self.sizes):
            column.setflags(write=False)

    def __len__(self) -> int:
        return self.sizes.size

    def indices(self, client: int) -> IntArray:
        """Return the rows that a client holds, as a view of ``order``."""
        first = self.first[client]
        return self.order[first : first + self.sizes[client]]

    @staticmethod
    def from_owners(owners: IntArray, clients: int | None = None) -> "Partition":
        """Return the partition in which sample i belongs to client ``owners[i]``.

        Args:
            owners: The client of each sample, counted from 0, (D,).
            clients: The number of clients. Default: the largest owner plus 1.

        Example:
            >>> Partition.from_owners(np.array([1, 0, 1])).indices(1)
            array([0, 2])
        """
        sizes = np.bincount(owners, minlength=clients or 0)
        if clients is not None and sizes.size > clients:
            raise InvalidInput(
                f"a sample belongs to client {sizes.size - 1}, but the {clients} clients are "
                f"numbered from 0 to {clients - 1}"
            )
        order = np.argsort(owners, kind="stable")
        return Partition(order, first=np.cumsum(sizes) - sizes, sizes=sizes)

    @staticmethod
    def from_lists(rows_per_client: Sequence[Sequence[int]]) -> "Partition":
        """Return the partition in which client i holds the rows ``rows_per_client[i]``.

        Example:
            >>> Partition.from_lists([[2, 0], [1]]).indices(0)
            array([2, 0])
        """
        sizes = np.array([len(rows) for rows in rows_per_client], dtype=np.int64)
        order = np.concatenate([np.asarray(rows, dtype=np.int64) for rows in rows_per_client])
        return Partition(order, first=np.cumsum(sizes) - sizes, sizes=sizes)


def _some_clients(clients: IntArray) -> str:
    """Name the first client and count the others.

    Example:
        >>> _some_clients(np.array([3])), _some_clients(np.array([3, 5, 7]))
        ('client 3', 'client 3 and 2 more')
    """
    others = clients.size - 1
    return f"client {clients[0]}" + (f" and {others} more" if others else "")
