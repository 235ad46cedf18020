import math

import pytest

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
    "book", [Ledger(rounds=3), Ledger(seconds=10.0), Ledger(cost=20.0), Ledger(cost=20.5)]
)
def test_a_limit_that_is_used_up_leaves_no_round(book: Ledger) -> None:
    assert book.remaining(LIMITS) is None


def test_a_limit_is_never_passed() -> None:
    book = Ledger(cost=15.0)
    assert book.keeps(LIMITS, cost=5.0)
    assert not book.keeps(LIMITS, cost=math.nextafter(5.0, 6.0))
