import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl import Limits
from dynamite_fl.training.ledger import Ledger

LIMITS = Limits(
    deadline=10, budget=20, cost_per_sample=0.1, cost_per_round=1, rounds=3, max_local_steps=7
)


def test_charges_add_up() -> None:
    book = Ledger()
    for _ in range(2):
        book = book.charge(seconds=1.5, cost=4.0, samples=30, sent_bytes=100)
    assert book == Ledger(rounds=2, seconds=3.0, cost=8.0, samples=60, sent_bytes=200)


def test_what_remains() -> None:
    left = Ledger(rounds=1, seconds=4.0, cost=15.0).remaining(LIMITS)
    assert left is not None
    assert (left.rounds, left.deadline, left.budget) == (2, 6.0, 5.0)
    assert (left.cost_per_sample, left.cost_per_round, left.max_local_steps) == (0.1, 1, 7)


@pytest.mark.parametrize(
    ("book", "name"),
    [
        (Ledger(rounds=3, seconds=10.0), "rounds"),
        (Ledger(seconds=10.0, cost=20.0), "deadline"),
        (Ledger(cost=20.0), "budget"),
        (Ledger(cost=20.5), "budget"),
    ],
)
def test_a_limit_that_is_used_up_leaves_no_round_and_is_named(book: Ledger, name: str) -> None:
    assert book.remaining(LIMITS) is None
    assert book.used_up(LIMITS) == name


def test_a_limit_is_never_passed() -> None:
    book = Ledger(cost=15.0)
    assert book.keeps(LIMITS, cost=5.0)
    assert not book.keeps(LIMITS, cost=math.nextafter(5.0, 6.0))


@given(st.floats(0.001, 1e6), st.floats(0, 1), st.floats(0, 1))
def test_what_is_left_can_be_spent_without_passing_a_limit(
    limit: float, first: float, second: float
) -> None:
    """The sum of two floats may be above the number from which one of them was subtracted."""
    limits = replace(LIMITS, deadline=limit, budget=limit)
    book = Ledger()
    for share in (first, second):
        spent, left = share * (limit - book.seconds), limit - book.cost
        book = book.charge(
            seconds=spent, cost=min(share * left, left), samples=1, sent_bytes=1, limits=limits
        )
    book = book.charge(
        seconds=limit - book.seconds,
        cost=limit - book.cost,
        samples=1,
        sent_bytes=1,
        limits=limits,
    )
    assert book.seconds <= limit
    assert book.cost <= limit
    assert math.isclose(book.seconds, limit)


def test_a_round_that_took_longer_than_was_left_is_charged_in_full() -> None:
    """On real machines, a round may end after the deadline."""
    book = Ledger(seconds=9.0).charge(seconds=2.0, cost=1.0, samples=1, sent_bytes=1, limits=LIMITS)
    assert book.seconds == 11.0


def test_the_last_unit_of_a_sum_does_not_pass_the_deadline() -> None:
    """These are numbers for which it did."""
    found = [
        (limit, part)
        for limit in (0.7, 1.1, 3.3, 7.7)
        for part in (limit * number / 97 for number in range(1, 97))
        if part + (limit - part) > limit
    ]
    assert found
    for limit, part in found:
        limits = replace(LIMITS, deadline=limit)
        book = Ledger(seconds=part).charge(
            seconds=limit - part, cost=0.0, samples=1, sent_bytes=1, limits=limits
        )
        assert book.seconds == limit
