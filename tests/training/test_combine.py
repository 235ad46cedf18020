"""Robust averages against brute force, and against clients that send anything."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dynamite_fl.training.aggregate import average
from dynamite_fl.training.averaging import (
    Averaging,
    ClippedMean,
    GeometricMedian,
    Mean,
    Median,
    TrimmedMean,
)
from dynamite_fl.training.combine import (
    capped_shares,
    clip_scales,
    combine,
    geometric_median_shares,
    trimmed_mean,
)

ROBUST: list[Averaging] = [ClippedMean(), Median(), TrimmedMean(share=0.3), GeometricMedian()]


def models(seed: int, count: int, size: int = 12) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return a global model and local models near it."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(size, generator=generator)
    return start, [start + torch.randn(size, generator=generator) for _ in range(count)]


def test_the_mean_is_that_of_the_paper_to_the_bit() -> None:
    start, updates = models(0, 5)
    samples = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert torch.equal(
        combine(Mean(), start, updates, samples, 9).average, average(updates, samples)
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8])
def test_medians_and_trimmed_means_are_those_of_numpy(count: int) -> None:
    start, updates = models(count, count)
    table = torch.stack(updates).numpy().astype(np.float64)
    median = combine(Median(), start, updates, np.ones(count), 9).average
    np.testing.assert_allclose(median, np.median(table, axis=0), rtol=1e-6)
    cut = int(0.3 * count)
    trimmed = combine(TrimmedMean(share=0.3), start, updates, np.ones(count), 9).average
    expected = np.sort(table, axis=0)[cut : count - cut].mean(axis=0)
    np.testing.assert_allclose(trimmed, expected, rtol=1e-5, atol=1e-6)


def test_long_models_are_sorted_in_pieces() -> None:
    _, updates = models(0, 3, size=150_000)
    result = trimmed_mean(updates, 1)
    assert torch.equal(result, torch.stack(updates).median(dim=0).values)


def test_the_clipped_mean_by_hand() -> None:
    """Movements of length 5, 10 and 20 and of equal weight; the median length is 10."""
    updates = [torch.tensor([3.0, 4.0]), torch.tensor([0.0, 10.0]), torch.tensor([20.0, 0.0])]
    combined = combine(ClippedMean(), torch.zeros(2), updates, np.ones(3), 2)
    assert combined.scales.tolist() == [1.0, 1.0, 0.5]
    np.testing.assert_allclose(combined.average, [13 / 3, 14 / 3], rtol=1e-6)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(3, 7))
def test_the_geometric_median_is_the_best_point(seed: int, count: int) -> None:
    """No point of a fine grid around it has a smaller sum of distances."""
    random = np.random.default_rng(seed)
    points, shares = random.normal(size=(count, 2)), random.uniform(1, 3, count)
    shares /= shares.sum()
    weights = geometric_median_shares(points @ points.T, shares)

    def distances(center: NDArray[np.float64]) -> float:
        return float(shares @ np.linalg.norm(points - center, axis=1))

    found = weights @ points
    steps = [-0.1, -0.01, -0.001, 0.0, 0.001, 0.01, 0.1]
    around = [found + np.array(step) for step in itertools.product(steps, steps)]
    best = min(distances(center) for center in [*around, *points])
    assert distances(found) <= best + 1e-5


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=9))
def test_shares_are_capped_and_keep_their_order(samples: list[float]) -> None:
    shares = capped_shares(np.array(samples))
    assert shares.sum() == pytest.approx(1.0)
    assert shares.max() <= 1 / 3 + 1e-9
    order = np.argsort(samples)
    assert (np.diff(shares[order]) >= -1e-12).all()


def test_shares_of_like_clients_are_those_of_the_mean() -> None:
    samples = np.array([10.0, 20.0, 15.0, 12.0, 18.0])
    np.testing.assert_allclose(capped_shares(samples), samples / samples.sum())
    np.testing.assert_allclose(capped_shares(np.array([1.0, 99.0])), [0.01, 0.99])  # no majority


@pytest.mark.parametrize("averaging", ROBUST, ids=lambda averaging: type(averaging).__name__)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), size=st.floats(-3e38, 3e38), claims=st.floats(1, 1e7))
def test_one_client_of_five_moves_the_average_only_so_far(
    averaging: Averaging, seed: int, size: float, claims: float
) -> None:
    """Whatever it sends and claims, the average stays within the honest movements."""
    start, updates = models(seed, 4)
    longest = max(float((update - start).norm()) for update in updates)
    liar = torch.full_like(start, size)
    combined = combine(averaging, start, [*updates, liar], np.array([100.0] * 4 + [claims]), 9)
    moved = float((combined.average[:9] - start[:9]).double().norm())
    assert moved <= 3 * longest
    assert torch.isfinite(combined.average).all()
    assert torch.isfinite(combined.linear).all()
    assert float((combined.linear[:9] - start[:9]).double().norm()) <= 3 * longest


def test_statistics_are_clipped_apart_from_weights() -> None:
    """The last number is a statistic of a large magnitude, which does not hide a bad weight."""
    start = torch.tensor([0.0, 1e6])
    updates = [torch.tensor([1.0, 1.1e6]), torch.tensor([1.0, 1.2e6]), torch.tensor([99.0, 1.1e6])]
    combined = combine(ClippedMean(), start, updates, np.ones(3), trained=1)
    assert float(combined.average[0]) == pytest.approx(1.0)
    assert combined.scales.tolist() == [1.0, 1.0, pytest.approx(1 / 99)]


def test_movements_of_length_zero() -> None:
    start = torch.ones(4)
    for averaging in ROBUST:
        combined = combine(averaging, start, [start.clone()] * 3, np.ones(3), 4)
        assert torch.equal(combined.average, start)
    assert clip_scales(np.array([0.0, 0.0, 5.0])).tolist() == [1.0, 1.0, 0.0]
