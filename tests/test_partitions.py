import itertools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dynamite_fl.errors import DynamiteError
from dynamite_fl.partitions import (
    PartitionRecipe,
    by_owner,
    dirichlet,
    fixed,
    partition_from_table,
    shards,
    unequal,
    wang,
)
from dynamite_fl.records import IntArray
from dynamite_fl.task.partition import Partition

RECIPES: list[PartitionRecipe] = [
    wang(case=1),
    dirichlet(alpha=0.01),
    dirichlet(alpha=1.0),
    shards(per_client=1),
    unequal(spread=1.5),
    unequal(spread=0.0),
]


def balanced(per_class: int, classes: int = 10) -> IntArray:
    return np.random.default_rng(0).permutation(np.repeat(np.arange(classes), per_class))


def by_client(partition: Partition) -> list[list[int]]:
    return [partition.indices(client).tolist() for client in range(len(partition))]


@st.composite
def cases(draw: Any) -> tuple[IntArray, int, int]:
    labels = draw(st.lists(st.integers(0, 4), min_size=1, max_size=60))
    clients = draw(st.integers(1, len(labels)))
    return np.array(labels), clients, draw(st.integers(0, 1000))


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
@given(case=cases())
def test_every_sample_has_one_owner_and_every_owner_a_sample(
    recipe: PartitionRecipe, case: tuple[IntArray, int, int]
) -> None:
    labels, clients, seed = case
    partition = recipe.split(labels, clients, seed)
    assert len(partition) == clients
    assert partition.sizes.min() >= 1
    assert sorted(itertools.chain(*by_client(partition))) == list(range(labels.size))
    assert by_client(partition) == by_client(recipe.split(labels, clients, seed))


@pytest.mark.parametrize("recipe", RECIPES[1:], ids=repr)
def test_another_seed_gives_another_partition(recipe: PartitionRecipe) -> None:
    labels = balanced(20)
    assert by_client(recipe.split(labels, 8, 0)) != by_client(recipe.split(labels, 8, 1))


def wang_slowly(labels: list[int], clients: int, case: int) -> list[list[int]]:
    """Apply the rule sample by sample: of the clients in turn, the one with fewest gets it."""
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
            wang(case).split(labels, clients)
    else:
        assert by_client(wang(case).split(labels, clients)) == expected


def test_wang_by_hand() -> None:
    labels = np.array([0, 1, 2, 3, 3, 2, 1, 0])
    assert by_client(wang(case=1).split(labels, 3)) == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert by_client(wang(case=2).split(labels, 2)) == [[0, 2, 5, 7], [1, 3, 4, 6]]
    assert by_client(wang(case=2).split(labels, 4)) == [[0, 7], [1, 6], [2, 5], [3, 4]]
    assert by_client(wang(case=4).split(labels, 4)) == [[0, 6], [1, 7], [2, 5], [3, 4]]


def test_wang_3_shares_all_samples_without_copies() -> None:
    partition = wang(case=3).split(balanced(6000), 100_000)
    assert len(partition) == 100_000
    first, last = partition.indices(0), partition.indices(99_999)
    assert first.size == last.size == 60_000
    assert np.shares_memory(first, last)


def largest_class_share(partition: Partition, labels: IntArray) -> float:
    shares = [
        np.bincount(labels[partition.indices(client)]).max() / partition.sizes[client]
        for client in range(len(partition))
    ]
    return float(np.mean(shares))


def test_smaller_alpha_concentrates_labels() -> None:
    labels = balanced(500)
    partitions = [dirichlet(alpha).split(labels, 20, seed=3) for alpha in (100, 1, 0.05)]
    shares = [largest_class_share(partition, labels) for partition in partitions]
    assert shares[0] < 0.2 < shares[1] < 0.6 < shares[2]


def test_shards_give_few_classes_and_equal_sizes() -> None:
    labels = balanced(600)
    partition = shards().split(labels, 100)
    assert set(partition.sizes) == {60}
    assert max(np.unique(labels[partition.indices(n)]).size for n in range(100)) <= 2


def test_unequal_sizes_are_log_normal_and_iid() -> None:
    labels = balanced(20_000)
    partition = unequal(spread=0.8).split(labels, 500, seed=2)
    assert np.log(partition.sizes).std() == pytest.approx(0.8, rel=0.1)
    largest = partition.indices(int(partition.sizes.argmax()))
    assert np.bincount(labels[largest]) / largest.size == pytest.approx(0.1, abs=0.03)


def test_by_owner_follows_the_data() -> None:
    owners = np.array([2, 0, 1, 0])
    assert by_client(by_owner().split(np.zeros(4), 3, owners=owners)) == [[1, 3], [2], [0]]
    with pytest.raises(ValueError, match=r"set Task\.train_clients, or use another partition"):
        by_owner().split(np.zeros(4), 3)


def test_fixed_follows_its_lists() -> None:
    assert by_client(fixed([[3, 0], [1, 0]]).split(np.zeros(4), 2)) == [[3, 0], [1, 0]]
    arrays = fixed([np.array([3, 0]), np.array([1, 0])])  # type: ignore[list-item]
    assert arrays == fixed([[3, 0], [1, 0]])
    with pytest.raises(ValueError, match="has lists for 2 clients, but there are 3"):
        arrays.split(np.zeros(4), 3)
    with pytest.raises(ValueError, match="names the row 3, but the 3 training samples"):
        arrays.split(np.zeros(3), 2)


NO_LABELS = [np.linspace(0, 1, 12), np.zeros((12, 1)), np.zeros((12, 3), dtype=np.int64)]


@pytest.mark.parametrize("targets", NO_LABELS, ids=["float", "column", "several"])
def test_only_recipes_that_split_by_class_need_labels(targets: Any) -> None:
    by_class: list[PartitionRecipe] = [dirichlet(0.3), shards(), wang(2), wang(4)]
    lists = fixed([[0], [5], [11]])
    others: list[PartitionRecipe] = [unequal(), wang(1), wang(3), by_owner(), lists]
    for recipe in by_class:
        with pytest.raises(ValueError, match=r"needs one whole-number label .*: use the partition"):
            recipe.split(targets, 3)
    for recipe in others:
        assert len(recipe.split(targets, 3, owners=np.arange(12) % 3)) == 3


def test_labels_of_any_whole_type_are_split_alike() -> None:
    labels = balanced(20)
    for recipe in (dirichlet(0.3), shards(), wang(2), wang(4)):
        expected = by_client(recipe.split(labels, 5))
        assert by_client(recipe.split(labels.astype(np.uint8), 5)) == expected
        assert by_client(recipe.split(labels.astype(np.int32), 5)) == expected


DRAWN = {
    "dirichlet": [[1, 2, 6, 8, 9, 10, 11], [0, 5], [3, 4, 7]],
    "shards": [[2, 5, 8, 9], [1, 3, 6, 11], [0, 4, 7, 10]],
    "unequal": [[1, 2, 3, 7], [8, 9], [0, 4, 5, 6, 10, 11]],
}


def test_draws_stay_the_same() -> None:
    """Histories depend on these draws, so a change of them must be deliberate."""
    labels = balanced(3, classes=4)
    assert by_client(dirichlet(0.3).split(labels, 3, seed=5)) == DRAWN["dirichlet"]
    assert by_client(shards().split(labels, 3, seed=5)) == DRAWN["shards"]
    assert by_client(unequal().split(labels, 3, seed=5)) == DRAWN["unequal"]


TABLES: list[dict[str, Any]] = [
    {"kind": "wang", "case": 4},
    {"kind": "dirichlet", "alpha": 0.3},
    {"kind": "shards", "per_client": 3},
    {"kind": "unequal", "spread": 0.5},
    {"kind": "by_owner"},
    {"kind": "fixed", "indices_per_client": [[0, 2], [1]]},
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["kind"])
def test_a_table_is_read_and_written(table: dict[str, Any]) -> None:
    recipe = partition_from_table(table)
    assert recipe.kind == table["kind"]
    assert recipe.to_table() == table
    assert partition_from_table(recipe.to_table()) == recipe
    assert partition_from_table({**table, "alpha": table.get("alpha")}) == recipe  # None: not set


def test_defaults_of_a_table_are_those_of_python() -> None:
    assert partition_from_table({"kind": "shards"}) == shards(per_client=2)
    assert partition_from_table({"kind": "unequal"}) == unequal(spread=1.0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("dirichlet", "partition must be a table such as"),
        ({"alpha": 0.3}, "partition lacks the key 'kind': use one of wang, dirichlet"),
        ({"kind": "dirichlt"}, "no partition.kind 'dirichlt': did you mean 'dirichlet'?"),
        ({"kind": 3}, "no partition.kind 3"),
        ({"kind": "dirichlet"}, "partition dirichlet lacks the key 'alpha'"),
        ({"kind": "dirichlet", "alhpa": 1}, "no key 'alhpa': did you mean 'alpha'?"),
        ({"kind": "dirichlet", "alpha": "x"}, "partition.alpha is 'x'"),
        ({"kind": "dirichlet", "alpha": True}, "partition.alpha is True"),
        ({"kind": "wang"}, "partition wang lacks the key 'case'"),
        ({"kind": "wang", "case": 1.5}, "partition.case is 1.5: it must be a whole number"),
        ({"kind": "wang", "case": 5}, "partition.case is 5: it must be a whole number, from 1 to"),
        ({"kind": "wang", "case": 1, "alpha": 1}, "partition wang has no key 'alpha'"),
        ({"kind": "shards", "per_client": 0}, "partition.per_client is 0"),
        ({"kind": "unequal", "spread": -1}, "partition.spread is -1"),
        ({"kind": "by_owner", "case": 1}, "partition by_owner has no key 'case'"),
        ({"kind": "fixed"}, "partition fixed lacks the key 'indices_per_client'"),
        ({"kind": "fixed", "indices_per_client": "x"}, "must be a list of lists"),
        ({"kind": "fixed", "indices_per_client": []}, "must be a list of lists"),
        ({"kind": "fixed", "indices_per_client": [[0], []]}, "[1] must be a list of at least one"),
        ({"kind": "fixed", "indices_per_client": [0, 1]}, "[0] must be a list of at least one"),
        ({"kind": "fixed", "indices_per_client": [[0, -1]]}, "[0] must be a list of at least one"),
        ({"kind": "fixed", "indices_per_client": [[0.5]]}, "[0] must be a list of at least one"),
        ({"kind": "fixed", "indices_per_client": [[[1], [1, 2]]]}, "[0] must be a list of at"),
    ],
)
def test_a_wrong_table_is_refused_with_one_line(table: object, message: str) -> None:
    with pytest.raises(DynamiteError) as failure:
        partition_from_table(table)
    assert message in str(failure.value)
    assert "\n" not in str(failure.value)


FEW = np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wang(1).split(FEW, 5), "4 samples are not enough for 5 clients"),
        (lambda: dirichlet(0.5).split(FEW, 100_000), "not enough for 100000 clients"),
        (lambda: unequal().split(FEW, 5), "not enough for 5 clients"),
        (lambda: shards(2).split(FEW, 3), "not enough for 6 shards"),
        (lambda: wang(3).split(FEW, 0), "it must be 1 or more"),
        (lambda: unequal().split(FEW, 0), "it must be 1 or more"),
        (lambda: dirichlet(0.0), r"partition\.alpha is 0"),
        (lambda: dirichlet(float("nan")), r"partition\.alpha is nan"),
    ],
)
def test_what_cannot_be_split_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
