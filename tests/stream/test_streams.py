import numpy as np

from dynamite_fl.stream.arrivals import Burst, Smooth
from dynamite_fl.stream.buffer import Policy, Storage
from dynamite_fl.stream.order import Order, Orders
from dynamite_fl.stream.streams import Streams

LABELS = np.tile(np.arange(5), 40)  # 200 samples, 40 of each of five classes
POOLS = {0: np.arange(200), 1: np.arange(0, 200, 2), 2: np.array([], dtype=np.int64)}


def orders(order: Order) -> Orders:
    return Orders(POOLS.__getitem__, LABELS, order)


def streams(policy: Policy = "reservoir", size: int | None = 30) -> Streams:
    arrivals = Smooth(initial=10, size=15, every=2)
    return Streams(arrivals, orders("iid"), Storage(policy, size))


def test_a_stream_ends_when_all_samples_have_arrived() -> None:
    seen = streams().seen(np.array([0, 1, 2]), 1000)
    assert seen.tolist() == [200, 100, 0]
    assert streams().seen(np.array([0, 1, 2]), 5).tolist() == [40, 40, 0]


def test_samples_that_arrive_in_an_absence_are_stored_afterwards() -> None:
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


def test_a_full_buffer_stays_full_and_all_arrivals_are_counted() -> None:
    given = Streams(Burst(initial=5, size=150, at=2), orders("iid"), Storage("reservoir", 20))
    before, _ = given.receive(0, 1, None)
    after, fresh = given.receive(0, 2, before)
    assert (before.rows.size, after.rows.size, after.seen) == (5, 20, 155)
    assert 0 < fresh.size <= 20


def test_fifo_forgets_the_first_classes_and_the_reservoir_keeps_all() -> None:
    """Store 200 samples, class by class, in 80 places: FIFO ends with the last two classes.

    The reservoir holds 16 of each class in the mean, with a deviation below sqrt(16 * 0.6).
    """
    whole = Burst(initial=200, size=0, at=1)
    held = {}
    for policy in ("fifo", "reservoir"):
        given = Streams(whole, orders("continuous"), Storage(policy, 80))
        held[policy] = np.bincount(LABELS[given.receive(0, 1, None)[0].rows], minlength=5)
    assert sorted(held["fifo"].tolist()) == [0, 0, 0, 40, 40]
    assert np.abs(held["reservoir"] - 16).max() <= 4 * np.sqrt(16 * 0.6)
