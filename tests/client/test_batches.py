from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl._random import client_stream
from dynamite_fl.client.batches import BATCHES, draw_batches


@given(st.integers(1, 50), st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_no_sample_comes_again_before_all_were_used(population: int, sizes: list[int]) -> None:
    batches = draw_batches(np.random.default_rng(0), population, sizes)
    assert [batch.size for batch in batches] == sizes
    order = np.concatenate(batches)
    for start in range(0, order.size, population):
        part = order[start : start + population]
        assert len(set(part.tolist())) == part.size
        assert part.max() < population


def test_every_sample_is_drawn_with_the_same_probability() -> None:
    """Chi-square over first batches of 3 of 10; the bound is the 99.9 % point at 9 degrees."""
    counts: Counter[int] = Counter()
    rounds = 4000
    for k in range(1, rounds + 1):
        (batch,) = draw_batches(client_stream(1, 5, k, BATCHES), 10, [3])
        counts.update(batch.tolist())
    expected = 3 * rounds / 10
    chi_square = sum((counts[i] - expected) ** 2 / expected for i in range(10))
    # Samples of one batch differ, which makes counts vary less: 27.9 is on the safe side.
    assert chi_square < 27.9


@pytest.mark.parametrize("size", [1, 7])
def test_a_whole_batch_is_all_samples(size: int) -> None:
    (batch,) = draw_batches(np.random.default_rng(0), size, [size])
    assert sorted(batch.tolist()) == list(range(size))
