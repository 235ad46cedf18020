import numpy as np
import pytest

from dynamite_fl.records import IntArray
from dynamite_fl.stream.arrival import Burst, Smooth
from dynamite_fl.stream.buffer import Policy, Storage
from dynamite_fl.stream.streams import Order, Orders, Streams

LABELS = np.tile(np.arange(5), 40)  # 200 samples, 40 of each of five classes
POOLS = {0: np.arange(200), 1: np.arange(0, 200, 2), 2: np.array([], dtype=np.int64)}


def orders(order: Order, most: int | None = None, seed: int = 0) -> Orders:
    return Orders(POOLS.__getitem__, LABELS, order, most, seed)


def streams(policy: Policy = "reservoir", size: int | None = 30) -> Streams:
    arrivals = Smooth(initial=10, size=15, every=2)
    return Streams(arrivals, orders("iid"), Storage(policy, size))


def test_a_continuous_order_goes_class_by_class_in_one_order_common_to_all() -> None:
    found = [LABELS[orders("continuous").of(client)] for client in (0, 1)]
    classes = [each[np.r_[True, np.diff(each) != 0]].tolist() for each in found]
    assert sorted(classes[0]) == [0, 1, 2, 3, 4]
    assert classes[0] == classes[1]
    other = {tuple(LABELS[orders("continuous", seed=seed).of(0)][::40]) for seed in range(5)}
    assert len(other) > 1


def test_an_iid_order_is_a_shuffle_of_ones_own() -> None:
    shuffled = orders("iid").of(0)
    assert sorted(shuffled.tolist()) == list(range(200))
    assert len({tuple(orders("iid", seed=seed).of(0)) for seed in range(3)}) == 3
    assert sorted(orders("iid").of(1).tolist()) == POOLS[1].tolist()
    assert np.bincount(LABELS[shuffled[:100]], minlength=5).min() >= 10  # 20 of each expected


def test_a_part_is_drawn_from_all_classes_alike() -> None:
    part = orders("continuous", most=50).of(0)
    assert np.unique(part).size == 50
    assert np.bincount(LABELS[part], minlength=5).min() >= 3  # 10 of each expected
    assert orders("continuous", most=500).size(0) == 200


def test_a_stream_ends_when_all_that_can_reach_the_client_has() -> None:
    seen = streams().seen(np.array([0, 1, 2]), 1000)
    assert seen.tolist() == [200, 100, 0]
    assert streams().seen(np.array([0, 1, 2]), 5).tolist() == [40, 40, 0]


def test_what_arrived_while_a_client_was_away_is_taken_in_when_it_is_back() -> None:
    given = streams()
    always = None
    for round_index in range(1, 12):
        always, _ = given.receive(0, round_index, always)
    early, _ = given.receive(0, 2, None)
    late, fresh = given.receive(0, 11, early)
    assert always is not None
    assert late.rows.tolist() == always.rows.tolist()
    assert late.seen == always.seen == 10 + 5 * 15
    assert set(fresh.tolist()) == set(late.rows.tolist()) - set(early.rows.tolist())


def test_overflow_leaves_the_buffer_full_and_counts_all() -> None:
    given = Streams(Burst(initial=5, size=150, at=2), orders("iid"), Storage("reservoir", 20))
    before, _ = given.receive(0, 1, None)
    after, fresh = given.receive(0, 2, before)
    assert (before.rows.size, after.rows.size, after.seen) == (5, 20, 155)
    assert 0 < fresh.size <= 20


def test_fifo_forgets_the_first_classes_and_the_reservoir_keeps_all() -> None:
    """200 samples class by class into 80 places: FIFO ends with the last two classes only.

    The reservoir holds 16 of each class in the mean, with a deviation below sqrt(16 * 0.6).
    """
    whole = Burst(initial=200, size=0, at=1)
    held = {}
    for policy in ("fifo", "reservoir"):
        given = Streams(whole, orders("continuous"), Storage(policy, 80))
        held[policy] = np.bincount(LABELS[given.receive(0, 1, None)[0].rows], minlength=5)
    assert sorted(held["fifo"].tolist()) == [0, 0, 0, 40, 40]
    assert np.abs(held["reservoir"] - 16).max() <= 4 * np.sqrt(16 * 0.6)


@pytest.mark.parametrize("labels", [LABELS / 2, LABELS.reshape(2, 100), LABELS - 1])
def test_only_labels_can_go_class_by_class(labels: IntArray) -> None:
    with pytest.raises(ValueError, match=r"use stream\.order iid"):
        Orders(POOLS.__getitem__, labels, "continuous")
    assert Orders(POOLS.__getitem__, labels, "iid").size(0) == 200


def test_what_is_no_order() -> None:
    with pytest.raises(ValueError, match="use iid or continuous"):
        orders("sorted")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the stream's most is 0"):
        orders("iid", most=0)
