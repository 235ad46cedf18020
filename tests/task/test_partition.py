from collections.abc import Callable

import numpy as np
import pytest

from dynamite_fl.task.partition import Partition

ROWS = np.array([0, 1, 0, 1])


def by_client(partition: Partition) -> list[list[int]]:
    return [partition.indices(client).tolist() for client in range(len(partition))]


def test_owners_become_a_partition() -> None:
    assert by_client(Partition.from_owners(np.array([2, 0, 1, 0]), clients=3)) == [[1, 3], [2], [0]]


def test_lists_become_a_partition() -> None:
    assert by_client(Partition.from_lists([[4, 0], [1], [0]])) == [[4, 0], [1], [0]]


def test_indices_are_views_and_cannot_be_written_to() -> None:
    partition = Partition.from_owners(np.arange(100) % 5)
    assert np.shares_memory(partition.indices(3), partition.order)
    with pytest.raises(ValueError, match="read-only"):
        partition.indices(3)[0] = 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Partition(ROWS, np.array([0]), np.array([5])), r"outside Partition\.order"),
        (lambda: Partition(ROWS, np.array([0]), np.array([1, 1])), "have the same length"),
        (
            lambda: Partition.from_owners(np.array([0, 3, 2, 3, 5]), clients=6),
            "client 1 and 1 more would hold no sample",
        ),
        (lambda: Partition.from_owners(np.array([0, 2, 1]), clients=2), "belongs to client 2, but"),
        (lambda: Partition.from_lists([[0], []]), "client 1 would hold no sample"),
    ],
)
def test_a_partition_that_cannot_be_is_refused(make: Callable[[], Partition], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
