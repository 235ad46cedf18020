"""The learning rates that searches try."""

from itertools import pairwise

from dynamite_fl.compare.rates import PER_DECADE, place_of, rate_at


def test_rates_rise_by_equal_factors_within_their_rounding() -> None:
    rates = [rate_at(place) for place in range(-20, 9)]
    factor = 10 ** (1 / PER_DECADE)
    for lower, higher in pairwise(rates):
        assert abs(higher / lower / factor - 1) < 0.05  # two digits are off by less than 5 %
    assert {0.001, 0.01, 0.1, 1.0, 10.0} <= set(rates)


def test_each_rate_has_its_place() -> None:
    assert [place_of(rate_at(place)) for place in range(-20, 9)] == list(range(-20, 9))
