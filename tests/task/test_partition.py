import itertools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dynamite_fl.records import IntArray
from dynamite_fl.task.partition import Partition, by_owner, dirichlet, shards, unequal, wang

Maker = Callable[[IntArray, int, int], Partition]

MAKERS: dict[str, Maker] = {
    "wang 1": lambda labels, clients, _: wang(labels, clients, case=1),
    "dirichlet 0.01": lambda labels, clients, seed: dirichlet(labels, clients, 0.01, seed),
    "dirichlet 1": lambda labels, clients, seed: dirichlet(labels, clients, 1.0, seed),
    "shards": lambda labels, clients, seed: shards(labels, clients, 1, seed),
    "unequal": lambda labels, clients, seed: unequal(labels, clients, 1.5, seed),
    "equal": lambda labels, clients, seed: unequal(labels, clients, 0.0, seed),
}


def balanced(each: int, classes: int = 10) -> IntArray:
    return np.random.default_rng(0).permutation(np.repeat(np.arange(classes), each))


def by_client(partition: Partition) -> list[list[int]]:
    return [partition.indices(client).tolist() for client in range(len(partition))]


@st.composite
def cases(draw: Any) -> tuple[IntArray, int, int]:
    labels = draw(st.lists(st.integers(0, 4), min_size=1, max_size=60))
    clients = draw(st.integers(1, len(labels)))
    return np.array(labels), clients, draw(st.integers(0, 1000))


@pytest.mark.parametrize("name", MAKERS)
@given(case=cases())
def test_every_sample_has_one_owner_and_every_owner_a_sample(
    name: str, case: tuple[IntArray, int, int]
) -> None:
    labels, clients, seed = case
    partition = MAKERS[name](labels, clients, seed)
    assert len(partition) == clients
    assert partition.sizes.min() >= 1
    assert sorted(itertools.chain(*by_client(partition))) == list(range(labels.size))
    assert by_client(partition) == by_client(MAKERS[name](labels, clients, seed))


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "wang 1"])
def test_another_seed_is_another_partition(name: str) -> None:
    labels = balanced(20)
    assert by_client(MAKERS[name](labels, 8, 0)) != by_client(MAKERS[name](labels, 8, 1))


def wang_slowly(labels: list[int], clients: int, case: int) -> list[list[int]]:
    """The rule sample by sample: of the clients that may have it, the one with fewest."""
    held: list[list[int]] = [[] for _ in range(clients)]
    low, high = min(labels), max(labels)
    count = high - low + 1
    half = -(-min(clients, count) // 2)
    for i, label in enumerate(labels):
        target = (label - low) % clients
        if case == 4:
            others = min(clients, count) - half
            lower = label < (low + high) / 2 or others == 0
            target = i % half if lower else half + (label - low) % others
        if clients > count:
            able = [n for n in range(clients) if n % count == target]
            target = min(able, key=lambda n: len(held[n]))
        held[target].append(i)
    return held


@pytest.mark.parametrize("case", [2, 4])
@given(data=cases())
def test_wang_by_label_as_sample_by_sample(case: int, data: tuple[IntArray, int, int]) -> None:
    labels, clients, _ = data
    expected = wang_slowly(labels.tolist(), clients, case)
    if min(map(len, expected)) == 0:
        with pytest.raises(ValueError, match="would hold no sample"):
            wang(labels, clients, case)
    else:
        assert by_client(wang(labels, clients, case)) == expected


def test_wang_by_hand() -> None:
    labels = np.array([0, 1, 2, 3, 3, 2, 1, 0])
    assert by_client(wang(labels, 3, case=1)) == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert by_client(wang(labels, 2, case=2)) == [[0, 2, 5, 7], [1, 3, 4, 6]]
    assert by_client(wang(labels, 4, case=2)) == [[0, 7], [1, 6], [2, 5], [3, 4]]
    assert by_client(wang(labels, 4, case=4)) == [[0, 6], [1, 7], [2, 5], [3, 4]]


def test_everyone_may_have_everything_without_copies() -> None:
    partition = wang(balanced(6000), 100_000, case=3)
    assert len(partition) == 100_000
    first, last = partition.indices(0), partition.indices(99_999)
    assert first.size == last.size == 60_000
    assert np.shares_memory(first, last)


def test_indices_are_views_and_cannot_be_written_to() -> None:
    partition = unequal(balanced(10), 5)
    assert np.shares_memory(partition.indices(3), partition.order)
    with pytest.raises(ValueError, match="read-only"):
        partition.indices(3)[0] = 7


def largest_class_share(partition: Partition, labels: IntArray) -> float:
    shares = [
        np.bincount(labels[partition.indices(client)]).max() / partition.sizes[client]
        for client in range(len(partition))
    ]
    return float(np.mean(shares))


def test_smaller_alpha_concentrates_labels() -> None:
    labels = balanced(500)
    shares = [largest_class_share(dirichlet(labels, 20, a, seed=3), labels) for a in (100, 1, 0.05)]
    assert shares[0] < 0.2 < shares[1] < 0.6 < shares[2]


def test_shards_give_few_classes_and_equal_sizes() -> None:
    labels = balanced(600)
    partition = shards(labels, 100, per_client=2)
    assert set(partition.sizes) == {60}
    assert max(np.unique(labels[partition.indices(n)]).size for n in range(100)) <= 2


def test_unequal_sizes_are_log_normal_and_iid() -> None:
    labels = balanced(20_000)
    partition = unequal(labels, 500, spread=0.8, seed=2)
    assert np.log(partition.sizes).std() == pytest.approx(0.8, rel=0.1)
    largest = partition.indices(int(partition.sizes.argmax()))
    assert np.bincount(labels[largest]) / largest.size == pytest.approx(0.1, abs=0.03)


def test_by_owner() -> None:
    partition = by_owner(np.array([2, 0, 1, 0]), clients=3)
    assert by_client(partition) == [[1, 3], [2], [0]]
    with pytest.raises(ValueError, match="client 1 would hold no sample, as would 1 others"):
        by_owner(np.array([0, 3, 2, 3, 5]), clients=6)
    with pytest.raises(ValueError, match="belongs to client 2, but there are 2"):
        by_owner(np.array([0, 2, 1]), clients=2)


FEW = np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wang(FEW, 5, case=1), "4 samples are not enough for 5 clients"),
        (lambda: dirichlet(FEW, 100_000, 0.5), "not enough for 100000 clients"),
        (lambda: unequal(FEW, 5), "not enough for 5 clients"),
        (lambda: shards(FEW, 3, per_client=2), "not enough for 6 shards"),
        (lambda: wang(FEW, 2, case=5), "case is 5"),
        (lambda: wang(FEW, 0, case=3), "it must be 1 or more"),
        (lambda: unequal(FEW, 0), "it must be 1 or more"),
        (lambda: shards(FEW, 2, per_client=0), "per_client is 0"),
        (lambda: dirichlet(FEW, 2, 0.0), "alpha is 0.0"),
        (lambda: dirichlet(FEW, 2, float("nan")), "alpha is nan"),
        (lambda: unequal(FEW, 2, spread=-1.0), "spread is -1.0"),
        (lambda: Partition(FEW, np.array([0]), np.array([5])), "outside Partition.order"),
        (lambda: Partition(FEW, np.array([0]), np.array([1, 1])), "of one length"),
    ],
)
def test_what_is_refused(make: Callable[[], Partition], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
