"""Steps that partition recipes share, worked by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.task.splitting import fill_empty_clients, half_by_label, take_turns, whole_parts


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=20), st.integers(0, 1000))
def test_whole_parts_sum_to_the_total_and_are_close_to_their_shares(
    weights: list[float], total: int
) -> None:
    shares = np.array(weights) / np.sum(weights)
    parts = whole_parts(shares, total)
    assert parts.sum() == total
    assert (parts >= 0).all()
    assert (np.abs(parts - shares * total) <= 1 + 1e-9).all()


def test_clients_take_turns_at_the_samples_of_one() -> None:
    """Of five clients, 0, 2 and 4 share the samples of 0, and 1 and 3 those of 1."""
    owner = np.array([0, 1, 0, 0, 1, 1])
    assert take_turns(owner, clients=5, period=2).tolist() == [0, 1, 2, 4, 3, 1]
    assert take_turns(owner, clients=2, period=2).tolist() == owner.tolist()


def test_half_of_the_labels_are_dealt_in_turn_and_the_others_by_label() -> None:
    label = np.array([0, 1, 2, 3, 0, 1, 2, 3])
    assert half_by_label(label, count=4, clients=4).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert half_by_label(label, count=4, clients=1).tolist() == [0] * 8


def test_a_client_without_samples_gets_one_from_those_that_have_the_most() -> None:
    owner = np.array([0] * 6 + [2])
    fill_empty_clients(owner, 4, np.random.default_rng(0))
    assert np.bincount(owner, minlength=4).tolist() == [4, 1, 1, 1]
    assert owner[6] == 2


def test_clients_that_have_samples_keep_them() -> None:
    owner = np.array([0, 1, 1])
    fill_empty_clients(owner, 2, np.random.default_rng(0))
    assert owner.tolist() == [0, 1, 1]
