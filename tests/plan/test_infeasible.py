import math
import pickle
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dynamite_fl import Fleet, Infeasible, Limits, cooptimize
from dynamite_fl.plan.fixed import fixed_plan
from dynamite_fl.plan.infeasible import require_feasible
from tests.plan.fixtures import EXAMPLE, example
from tests.plan.strategies import fleets, limits


def refusal(fleet: Fleet, given: Limits, **changes: Any) -> Infeasible | None:
    try:
        require_feasible(fleet, replace(given, **changes))
    except Infeasible as error:
        return error
    return None


@settings(max_examples=500)
@given(fleets(), limits(rounds=st.one_of(st.none(), st.integers(1, 200))))
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


@settings(max_examples=300)
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


def test_fixed_plan_ends_with_the_first_limit() -> None:
    fleet, given = example()
    plan = fixed_plan(fleet, replace(given, deadline=2000), EXAMPLE)
    # The slowest, small-4, takes 2 (0.012 + 60/147) + 0.42 = 1.2603 s a round.
    assert plan.rounds == int(2000 / 1.26033) == 1586
    assert plan.seconds <= 2000
    plan = fixed_plan(fleet, replace(given, budget=320), EXAMPLE)
    assert plan.rounds == 100  # 2*0.0005*1200 + 2 = 3.2 a round
    assert plan.cost == pytest.approx(320)
    assert fixed_plan(fleet, given, EXAMPLE).rounds == 3000


def test_fixed_plan_uses_what_data_there_is() -> None:
    fleet = Fleet(samples=[10, 100], gradient_variance=1, samples_per_second=50, comm_seconds=0)
    given = Limits(rounds=3, deadline=99, budget=99, cost_per_sample=0.1, cost_per_round=1)
    assert fixed_plan(fleet, given, EXAMPLE).batch_sizes.tolist() == [10, 60]


def test_fixed_plan_keeps_to_buffers_and_reason() -> None:
    fleet = Fleet(
        samples=[100], gradient_variance=1, samples_per_second=50, comm_seconds=0, buffer_size=7
    )
    given = Limits(rounds=3, deadline=99, budget=99, cost_per_sample=0.1, cost_per_round=1)
    assert fixed_plan(fleet, given, EXAMPLE).batch_sizes.tolist() == [7]
    for wrong in ({"local_steps": 0}, {"batch_size": 0}):
        with pytest.raises(ValueError, match="must be 1 or more"):
            fixed_plan(fleet, given, EXAMPLE, **wrong)  # type: ignore[arg-type]


def test_both_limits_can_be_missed_at_once() -> None:
    fleet, given = example()
    error = refusal(fleet, given, deadline=1000, budget=10)
    assert error is not None
    assert [miss.limit for miss in error.misses] == ["deadline", "budget"]
    assert "deadline = 1316.408164 and budget = 6030, or rounds = 4" in str(error)


def test_fixed_plan_refuses_what_does_not_fit_once() -> None:
    fleet, given = example()
    with pytest.raises(Infeasible, match="2 local steps on 60 samples") as caught:
        fixed_plan(fleet, replace(given, deadline=1), EXAMPLE)
    assert caught.value.rounds == 0
    endless = replace(given, rounds=None, deadline=math.inf, budget=math.inf)
    with pytest.raises(ValueError, match=r"Limits\.rounds is needed"):
        fixed_plan(fleet, endless, EXAMPLE)
