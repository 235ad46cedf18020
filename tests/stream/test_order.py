import numpy as np
import pytest

from dynamite_fl.records import IntArray
from dynamite_fl.stream.order import Order, Orders

LABELS = np.tile(np.arange(5), 40)  # 200 samples, 40 of each of five classes
POOLS = {0: np.arange(200), 1: np.arange(0, 200, 2)}


def orders(order: Order, max_samples: int | None = None, seed: int = 0) -> Orders:
    return Orders(POOLS.__getitem__, LABELS, order, max_samples, seed)


def test_a_continuous_order_has_the_classes_in_one_order_for_all_clients() -> None:
    labels = [LABELS[orders("continuous").rows(client)] for client in (0, 1)]
    classes = [column[np.r_[True, np.diff(column) != 0]].tolist() for column in labels]
    assert sorted(classes[0]) == [0, 1, 2, 3, 4]
    assert classes[0] == classes[1]
    of_seeds = {tuple(LABELS[orders("continuous", seed=seed).rows(0)][::40]) for seed in range(5)}
    assert len(of_seeds) > 1


def test_an_iid_order_shuffles_the_samples_of_each_client() -> None:
    shuffled = orders("iid").rows(0)
    assert sorted(shuffled.tolist()) == list(range(200))
    assert len({tuple(orders("iid", seed=seed).rows(0)) for seed in range(3)}) == 3
    assert sorted(orders("iid").rows(1).tolist()) == POOLS[1].tolist()
    assert np.bincount(LABELS[shuffled[:100]], minlength=5).min() >= 10  # 20 of each expected


def test_a_balanced_order_has_equally_many_of_every_class_in_each_interval() -> None:
    """The paper's I.I.D. stream: of 40 samples of each class, 8 are in each interval of 40."""
    order = orders("balanced").rows(0)
    assert sorted(order.tolist()) == list(range(200))
    for start in range(0, 200, 40):
        assert np.bincount(LABELS[order[start : start + 40]]).tolist() == [8] * 5
    assert len({tuple(orders("balanced", seed=seed).rows(0)) for seed in range(3)}) == 3
    assert np.bincount(LABELS[orders("balanced", max_samples=50).rows(0)]).tolist() == [10] * 5
    # Within a turn of five samples, one of each class, the classes have no fixed order.
    assert len({tuple(LABELS[order[start : start + 5]]) for start in range(0, 200, 5)}) > 5


def test_a_balanced_order_goes_on_without_the_classes_that_have_run_out() -> None:
    labels = np.array([0] * 10 + [1] * 4 + [2] * 7)
    order = labels[Orders(lambda _: np.arange(21), labels, "balanced").rows(0)]
    assert np.bincount(order[:12]).tolist() == [4, 4, 4]
    assert np.bincount(order[12:18], minlength=3).tolist() == [3, 0, 3]
    assert order[18:].tolist() == [0, 0, 0]


def test_max_samples_are_drawn_from_all_classes_alike() -> None:
    part = orders("continuous", max_samples=50).rows(0)
    assert np.unique(part).size == 50
    assert np.bincount(LABELS[part], minlength=5).min() >= 3  # 10 of each expected
    assert orders("continuous", max_samples=500).size(0) == 200


@pytest.mark.parametrize("labels", [LABELS / 2, LABELS.reshape(2, 100), LABELS - 1])
def test_only_labels_can_be_sorted_by_class(labels: IntArray) -> None:
    with pytest.raises(
        ValueError, match=r"needs one whole-number label .*: use stream\.order 'iid'"
    ):
        Orders(POOLS.__getitem__, labels, "continuous")
    with pytest.raises(ValueError, match=r"stream\.order 'balanced' sorts samples by class"):
        Orders(POOLS.__getitem__, labels, "balanced")
    assert Orders(POOLS.__getitem__, labels, "iid").size(0) == 200
