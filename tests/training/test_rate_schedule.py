"""The learning rate of a round, against closed forms."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.errors import InvalidInput
from dynamite_fl.training.rate_schedule import SCHEDULES, RateSchedule

SHARES = st.floats(0, 1)
WARMUPS = st.floats(0, 0.9)
FINALS = st.floats(0.001, 1)


@given(SHARES)
def test_a_constant_rate_is_the_given_one_to_the_bit(share: float) -> None:
    schedule = RateSchedule(0.05)
    assert schedule.at(share) == 0.05
    assert schedule.is_constant


@given(SHARES, FINALS)
def test_linear_and_cosine_without_a_warmup(share: float, final: float) -> None:
    linear = RateSchedule(0.3, "linear", final_rate=final)
    assert linear.at(share) == pytest.approx(0.3 - share * (0.3 - 0.3 * final))
    cosine = RateSchedule(0.3, "cosine", final_rate=final)
    lowest = 0.3 * final
    wave = lowest + (0.3 - lowest) * (1 + math.cos(math.pi * share)) / 2
    assert cosine.at(share) == pytest.approx(wave)


@given(st.sampled_from(SCHEDULES), SHARES, st.floats(0.01, 0.9), FINALS)
def test_a_warmup_rises_to_the_rate_and_shortens_what_follows(
    name: str, share: float, warmup: float, final: float
) -> None:
    schedule = RateSchedule(2.0, name, warmup, final)
    assert schedule.at(share * warmup * (1 - 1e-12)) == pytest.approx(0.2 + 1.8 * share)
    assert schedule.at(warmup) == pytest.approx(2.0)
    after = RateSchedule(2.0, name, 0.0, final)
    assert schedule.at(warmup + share * (1 - warmup)) == pytest.approx(after.at(share), abs=1e-9)
    assert not schedule.is_constant


@given(st.sampled_from(SCHEDULES), SHARES, SHARES, WARMUPS, FINALS)
def test_the_rate_is_never_zero_and_falls_after_the_warmup(
    name: str, one: float, other: float, warmup: float, final: float
) -> None:
    schedule = RateSchedule(0.1, name, warmup, final)
    earlier, later = sorted((one, other))
    for share in (earlier, later):
        lowest = 0.1 * min(final, 0.1) * (1 - 1e-12)
        assert lowest <= schedule.at(share) <= 0.1 * (1 + 1e-12)
    if earlier >= warmup:
        assert schedule.at(later) <= schedule.at(earlier)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"learning_rate": 0}, r"training\.learning_rate is 0"),
        ({"schedule": "cosinus"}, r"no training\.schedule 'cosinus': did you mean 'cosine'"),
        ({"warmup": 1}, r"training\.warmup is 1: .* at most 0\.99"),
        ({"warmup": -0.1}, r"training\.warmup is -0\.1"),
        ({"final_rate": 0}, r"training\.final_rate is 0: it must be a number above 0, at most 1"),
        ({"final_rate": 1.5}, r"training\.final_rate is 1\.5"),
    ],
)
def test_what_cannot_be_used(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        RateSchedule(**{"learning_rate": 0.1, **wrong})
