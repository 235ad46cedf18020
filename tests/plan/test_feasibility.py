import math
import pickle
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dynamite_fl import Fleet, Infeasible, Limits, cooptimize
from dynamite_fl.plan.feasibility import fit_rounds, most_rounds, require_feasible
from tests.examples import examples
from tests.plan.fixtures import EXAMPLE, example
from tests.plan.strategies import fleets, limits


def refusal(fleet: Fleet, given: Limits, **changes: Any) -> Infeasible | None:
    try:
        require_feasible(fleet, replace(given, **changes))
    except Infeasible as error:
        return error
    return None


@examples(500)
@given(
    st.one_of(fleets(), fleets(least=st.integers(1, 5))),
    limits(rounds=st.one_of(st.none(), st.integers(1, 200))),
)
def test_the_change_that_is_named_is_enough_and_no_more(fleet: Fleet, given: Limits) -> None:
    error = refusal(fleet, given)
    assume(error is not None)
    assert error is not None
    enough = {miss.limit: miss.needed for miss in error.misses}
    assert refusal(fleet, given, **enough) is None
    for miss in error.misses:
        assert miss.missed_by == miss.needed - miss.given > 0
        less = {**enough, miss.limit: math.nextafter(miss.needed, 0)}
        assert refusal(fleet, given, **less) is not None
    # What the message prints can be set as it is.
    printed = re.findall(r"(deadline|budget) = ([\d.]*\d)", str(error))
    assert len(printed) == len(error.misses)
    changes = {limit: float(value) for limit, value in printed}
    assert refusal(fleet, given, **changes) is None


@examples(300)
@given(fleets(), limits(rounds=st.integers(1, 200)))
def test_the_rounds_that_are_named_are_the_most(fleet: Fleet, given: Limits) -> None:
    error = refusal(fleet, given)
    assume(error is not None)
    assert error is not None
    if error.rounds:
        assert refusal(fleet, given, rounds=error.rounds) is None
        assert f"rounds = {error.rounds}" in str(error)
    assert refusal(fleet, given, rounds=error.rounds + 1) is not None


def test_message_says_which_limit_by_how_much_and_what_to_change() -> None:
    fleet, given = example()
    with pytest.raises(Infeasible) as caught:
        cooptimize(fleet, replace(given, deadline=1000), EXAMPLE)
    assert str(caught.value) == (
        "the deadline of 1000 is missed by 316.4081633, as small-4 needs 0.439 s for a round of "
        "1 local step on 1 sample (0.42 s of it for communication), and there are 3000 rounds. "
        "The smallest change: deadline = 1316.408164, or rounds = 2278"
    )
    with pytest.raises(Infeasible) as caught:
        cooptimize(fleet, replace(given, budget=6000), EXAMPLE)
    assert caught.value.limit == "budget"
    assert caught.value.missed_by == pytest.approx(30)  # 3000 (0.0005*20 + 2) = 6030


def test_the_smallest_change_is_not_rounded_for_nothing() -> None:
    fleet = Fleet(samples=[5], gradient_variance=1, samples_per_second=10, comm_seconds=0)
    given = Limits(rounds=200, deadline=99, budget=1, cost_per_sample=0.002, cost_per_round=0.4)
    with pytest.raises(Infeasible, match=r"missed by 79\.4,.*budget = 80\.4, or rounds = 2$"):
        cooptimize(fleet, given, EXAMPLE)


def test_refusals_cross_process_borders() -> None:
    fleet, given = example()
    error = refusal(fleet, given, deadline=1000, budget=10)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own, made just now
    assert str(copy) == str(error)
    assert copy.misses == error.misses if error else False


def test_both_limits_can_be_missed_at_once() -> None:
    fleet, given = example()
    error = refusal(fleet, given, deadline=1000, budget=10)
    assert error is not None
    assert [miss.limit for miss in error.misses] == ["deadline", "budget"]
    assert "deadline = 1316.408164 and budget = 6030, or rounds = 4" in str(error)


@examples(300)
@given(fleets(), limits(rounds=st.one_of(st.none(), st.integers(1, 200))), st.integers(1, 5))
def test_if_rounds_may_be_fewer_the_advice_is_what_one_round_needs(
    fleet: Fleet, given: Limits, local_steps: int
) -> None:
    def advice(given: Limits) -> Infeasible | None:
        try:
            fit_rounds(fleet, given, local_steps)
        except Infeasible as error:
            return error
        return None

    too_small = replace(given, deadline=given.deadline / 1e4, budget=given.budget / 1e4)
    error = advice(too_small)
    assume(error is not None)
    assert error is not None
    enough: dict[str, Any] = {miss.limit: miss.needed for miss in error.misses}
    assert advice(replace(too_small, **enough)) is None
    for miss in error.misses:
        less = {**enough, miss.limit: math.nextafter(miss.needed, 0)}
        assert advice(replace(too_small, **less)) is not None


@given(st.integers(1, 10**6), st.floats(1e-6, 100))
def test_rounds_that_just_fit(rounds: int, seconds: float) -> None:
    given = Limits(deadline=rounds * seconds, budget=math.inf, cost_per_sample=0, cost_per_round=0)
    fitting = most_rounds(given, seconds, 0.0)
    assert fitting >= rounds
    assert fitting * seconds <= given.deadline < (fitting + 1) * seconds


def test_rounds_without_limits_do_not_end() -> None:
    free = Limits(deadline=math.inf, budget=5, cost_per_sample=0, cost_per_round=0)
    assert most_rounds(free, 1.0, 0.0) == math.inf


def test_fewer_rounds_where_not_all_fit() -> None:
    fleet = Fleet(samples=[9], gradient_variance=1, samples_per_second=1, comm_seconds=1)
    given = Limits(deadline=10, budget=9, cost_per_sample=1, cost_per_round=1, rounds=4)
    assert fit_rounds(fleet, given) is given  # four of two seconds that cost two
    assert fit_rounds(fleet, replace(given, rounds=None)).rounds is None
    assert fit_rounds(fleet, replace(given, rounds=9)).rounds == 4
    assert fit_rounds(fleet, given, local_steps=3).rounds == 2
    with pytest.raises(Infeasible):
        fit_rounds(fleet, given, local_steps=10)
