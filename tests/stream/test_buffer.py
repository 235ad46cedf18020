"""Buffers compared with plain implementations, and their statistics."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from dynamite_fl.records import FloatArray, IntArray
from dynamite_fl.stream.buffer import NOTHING, Buffer, Policy, Storage, chances

BOUNDED: tuple[Policy, ...] = ("reservoir", "random", "fifo")
every_buffer = pytest.mark.parametrize("policy", BOUNDED)


def vitter(size: int, samples: Sequence[int], chance: FloatArray) -> list[int]:
    """Run Algorithm R (with ``<=``, Algorithm 4): sample n, from 1, takes place floor(n u)."""
    buffer: list[int] = []
    for seen, (sample, u) in enumerate(zip(samples, chance, strict=True), start=1):
        if seen <= size:
            buffer.append(sample)
        else:
            place = int(u * seen)
            if place < size:
                buffer[place] = sample
    return buffer


def replaces_any(size: int, samples: Sequence[int], chance: FloatArray) -> list[int]:
    buffer: list[int] = []
    for sample, u in zip(samples, chance, strict=True):
        if len(buffer) < size:
            buffer.append(sample)
        else:
            buffer[int(u * size)] = sample
    return buffer


def taken(storage: Storage, samples: IntArray, portions: Sequence[int] = ()) -> Buffer:
    """Return the buffer after samples in portions of these sizes, and then the rest at once."""
    buffer = NOTHING
    for portion in np.split(samples, np.cumsum(portions)):
        before = buffer
        buffer, places = storage.take(3, buffer, portion)
        fresh = set(buffer.rows[places].tolist())
        assert fresh == set(buffer.rows.tolist()) - set(before.rows.tolist())
    return buffer


@given(st.integers(1, 20), st.integers(0, 120), st.integers(0, 2**32))
def test_the_reservoir_is_that_of_vitter_on_the_same_random_numbers(
    size: int, count: int, seed: int
) -> None:
    samples = np.arange(1000, 1000 + count)
    buffer = taken(Storage("reservoir", size, seed), samples)
    assert buffer.rows.tolist() == vitter(size, samples.tolist(), chances(seed, 3, 0, count))
    assert buffer.seen == count


@given(st.integers(1, 20), st.integers(0, 120), st.integers(0, 2**32))
def test_random_replacement_is_that_of_a_plain_implementation(
    size: int, count: int, seed: int
) -> None:
    samples = np.arange(count)
    buffer = taken(Storage("random", size, seed), samples)
    assert buffer.rows.tolist() == replaces_any(size, samples.tolist(), chances(seed, 3, 0, count))


@given(st.integers(1, 20), st.integers(0, 120))
def test_fifo_holds_the_newest(size: int, count: int) -> None:
    buffer = taken(Storage("fifo", size), np.arange(count))
    assert sorted(buffer.rows.tolist()) == list(range(max(0, count - size), count))


@given(st.integers(0, 120))
def test_unbounded_holds_all_in_order(count: int) -> None:
    assert taken(Storage("unbounded"), np.arange(count)).rows.tolist() == list(range(count))


@given(
    st.sampled_from(BOUNDED),
    st.integers(1, 15),
    st.lists(st.integers(0, 30), max_size=8),
    st.integers(0, 2**32),
)
def test_portions_make_no_difference_and_no_buffer_exceeds_its_size(
    policy: Policy, size: int, portions: list[int], seed: int
) -> None:
    samples = np.arange(sum(portions) + 5)
    storage = Storage(policy, size, seed)
    at_once, by_portions = taken(storage, samples), taken(storage, samples, portions)
    one_by_one = taken(storage, samples, [1] * samples.size)
    assert at_once.rows.tolist() == by_portions.rows.tolist() == one_by_one.rows.tolist()
    assert at_once.rows.size == min(size, samples.size)
    assert at_once.seen == by_portions.seen == samples.size


def test_algorithm_4_must_count_the_new_sample_in() -> None:
    """Check that as many samples as there are places are all stored.

    The paper counts a sample first and then asks whether D < B, so that one place would stay
    empty. We ask whether D <= B.
    """
    buffer, places = Storage("reservoir", 3).take(0, NOTHING, np.array([7, 8, 9]))
    assert buffer.rows.tolist() == [7, 8, 9]
    assert places.tolist() == [0, 1, 2]
    places = Storage("reservoir", 3).places(0, 0, 4)
    assert places[:3].tolist() == [0, 1, 2]
    assert places[3] in (-1, 0, 1, 2)


@pytest.mark.parametrize("seen", [60, 500])
def test_a_reservoir_stores_every_sample_with_the_same_probability(seen: int) -> None:
    """Test the counts of 4000 clients, which store 20 samples each, by chi-square.

    A sample is stored by a client with chance p = 20/seen, so counts have variance n p (1 - p).
    As counts sum to 20 n, sum (count - n p)^2/(n p (1 - p)) (seen - 1)/seen is chi-square with
    seen - 1 degrees of freedom. The seed is fixed; a right buffer exceeds the bound in one of
    10,000 seeds.
    """
    clients, size = 4000, 20
    storage, count = Storage("reservoir", size, seed=11), np.zeros(seen)
    for client in range(clients):
        buffer, _ = storage.take(client, NOTHING, np.arange(seen))
        count[buffer.rows] += 1
    p = size / seen
    statistic = ((count - clients * p) ** 2).sum() / (clients * p * (1 - p)) * (seen - 1) / seen
    assert chi2.ppf(1e-4, seen - 1) < statistic < chi2.ppf(1 - 1e-4, seen - 1)


def test_samples_are_spread_evenly_over_the_places_of_a_reservoir() -> None:
    """Test by chi-square that sample 100 of 200, if stored, is in each of 10 places alike."""
    size, storage = 10, Storage("reservoir", 10, seed=5)
    places = [storage.take(client, NOTHING, np.arange(200))[0].rows for client in range(20_000)]
    where = np.argwhere(np.array(places) == 100)[:, 1]
    count = np.bincount(where, minlength=size)
    expected = where.size / size
    assert expected > 50
    assert ((count - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, size - 1)


def test_random_replacement_forgets_the_oldest() -> None:
    """Compare with the probability 1 - 1/B that a stored sample survives an arrival."""
    storage, size = Storage("random", 50, seed=2), 50
    rows = np.array(
        [storage.take(client, NOTHING, np.arange(3 * size))[0].rows for client in range(500)]
    )
    survived = (rows < size).sum() / (500 * size)
    expected = (1 - 1 / size) ** (2 * size)
    assert survived == pytest.approx(expected, abs=4 * np.sqrt(expected / (500 * size)))


def test_clients_and_seeds_have_different_draws() -> None:
    rows = {
        tuple(Storage("reservoir", 5, seed).take(client, NOTHING, np.arange(200))[0].rows)
        for seed in (0, 1)
        for client in (0, 1)
    }
    assert len(rows) == 4


@every_buffer
def test_a_buffer_without_arrivals_does_not_change(policy: Policy) -> None:
    buffer = Buffer(np.array([4, 5]), 9)
    after, places = Storage(policy, 2).take(0, buffer, np.empty(0, dtype=np.int64))
    assert after is buffer
    assert not places.size


@pytest.mark.parametrize(
    ("policy", "size", "complaint"),
    [
        ("xyz", 3, "use one of reservoir, random, fifo, unbounded"),
        ("lifo", 3, "no stream.buffer 'lifo': did you mean 'fifo'"),
        ("fifo", None, "'fifo' needs stream.buffer_size"),
        ("unbounded", 3, "'unbounded' takes no stream.buffer_size"),
        ("random", 0, "stream.buffer_size is 0"),
        ("random", 2.5, "stream.buffer_size is 2.5"),
    ],
)
def test_a_wrong_policy_or_size_is_refused(policy: Policy, size: int, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Storage(policy, size)
