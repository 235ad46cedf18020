"""The only place where values of the leading metric are compared."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric

RMSE = LeadingMetric("rmse", higher_is_better=False)
NUMBERS = st.floats(-1e6, 1e6)


def test_higher_is_better_by_hand() -> None:
    assert ACCURACY.better(0.9, 0.8)
    assert not ACCURACY.better(0.9, 0.9)
    assert ACCURACY.has_reached(0.9, target=0.9)
    assert not ACCURACY.has_reached(0.89, target=0.9)
    assert ACCURACY.gain(0.5, 0.75) == 0.25
    assert (ACCURACY.best([0.5, None, 0.75]), ACCURACY.worst([0.5, None, 0.75])) == (0.75, 0.5)


def test_lower_is_better_by_hand() -> None:
    assert RMSE.better(0.8, 0.9)
    assert not RMSE.better(0.9, 0.9)
    assert RMSE.has_reached(0.9, target=0.9)
    assert not RMSE.has_reached(0.91, target=0.9)
    assert RMSE.gain(0.75, 0.5) == 0.25
    assert (RMSE.best([0.5, None, 0.75]), RMSE.worst([0.5, None, 0.75])) == (0.5, 0.75)


@pytest.mark.parametrize("metric", [ACCURACY, RMSE])
def test_of_nothing_there_is_no_best(metric: LeadingMetric) -> None:
    assert math.isnan(metric.best([]))
    assert math.isnan(metric.worst([None]))
    assert not metric.better(math.nan, 0.5)
    assert not metric.has_reached(math.nan, 0.5)


@given(values=st.lists(NUMBERS, min_size=1), other=NUMBERS)
def test_directions_are_mirror_images(values: list[float], other: float) -> None:
    mirrored = [-value for value in values]
    assert RMSE.best(mirrored) == -ACCURACY.best(values) == -max(values)
    assert RMSE.worst(mirrored) == -ACCURACY.worst(values) == -min(values)
    for value in values:
        assert ACCURACY.better(value, other) == RMSE.better(-value, -other) == (value > other)
        assert ACCURACY.gain(value, other) == RMSE.gain(-value, -other) == other - value
        assert ACCURACY.has_reached(value, other) != ACCURACY.better(other, value)


@given(values=st.lists(NUMBERS, min_size=1))
def test_sorting_puts_the_best_first(values: list[float]) -> None:
    assert sorted(values, key=ACCURACY.sort_key) == sorted(values, reverse=True)
    assert sorted(values, key=RMSE.sort_key)[0] == RMSE.best(values)
