"""Numbers as text."""

import pytest

from dynamite_fl._format import byte_size, count, number, number_spread, percent_spread


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.0"), (99.94, "99.9"), (100, "100"), (1e6, "1,000,000")]
)
def test_decimals_are_shown_below_100(value: float, text: str) -> None:
    assert number(value) == text


def test_a_spread_has_the_decimals_of_its_mean() -> None:
    assert number_spread(1234.5, 7.89) == "1,234 ± 8"
    assert number_spread(12.34, 0.5, decimals=2) == "12.34 ± 0.50"
    assert percent_spread(1.0, 0.0) == "100.0% ± 0.0"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (5e9, "5 GB"), (2e15, "2e+03 TB")],
)
def test_sizes(size: float, text: str) -> None:
    assert byte_size(size) == text


def test_one_thing_is_singular_and_all_other_numbers_are_plural() -> None:
    assert (count(0, "run"), count(1, "run"), count(1000, "run")) == (
        "0 runs",
        "1 run",
        "1,000 runs",
    )
