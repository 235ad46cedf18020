import math
from dataclasses import replace

import pytest

from dynamite_fl import Fleet, Infeasible, Limits
from dynamite_fl.plan.fixed import fixed_plan
from tests.plan.fixtures import EXAMPLE, example


def test_the_tightest_limit_gives_the_rounds() -> None:
    fleet, given = example()
    plan = fixed_plan(fleet, replace(given, deadline=2000), EXAMPLE)
    # The slowest, small-4, takes 2 (0.012 + 60/147) + 0.42 = 1.2603 s a round.
    assert plan.rounds == int(2000 / 1.26033) == 1586
    assert plan.seconds <= 2000
    plan = fixed_plan(fleet, replace(given, budget=320), EXAMPLE)
    assert plan.rounds == 100  # 2*0.0005*1200 + 2 = 3.2 a round
    assert plan.cost == pytest.approx(320)
    assert fixed_plan(fleet, given, EXAMPLE).rounds == 3000


def test_clients_use_at_most_their_data() -> None:
    fleet = Fleet(samples=[10, 100], gradient_variance=1, samples_per_second=50, comm_seconds=0)
    given = Limits(rounds=3, deadline=99, budget=99, cost_per_sample=0.1, cost_per_round=1)
    assert fixed_plan(fleet, given, EXAMPLE).batch_sizes.tolist() == [10, 60]


def test_it_keeps_to_buffers_and_refuses_zero() -> None:
    fleet = Fleet(
        samples=[100], gradient_variance=1, samples_per_second=50, comm_seconds=0, buffer_size=7
    )
    given = Limits(rounds=3, deadline=99, budget=99, cost_per_sample=0.1, cost_per_round=1)
    assert fixed_plan(fleet, given, EXAMPLE).batch_sizes.tolist() == [7]
    for wrong in ({"local_steps": 0}, {"batch_size": 0}):
        with pytest.raises(ValueError, match="must be 1 or more"):
            fixed_plan(fleet, given, EXAMPLE, **wrong)  # type: ignore[arg-type]


def test_limits_without_room_for_one_round_are_refused() -> None:
    fleet, given = example()
    with pytest.raises(Infeasible, match="2 local steps on 60 samples") as caught:
        fixed_plan(fleet, replace(given, deadline=1), EXAMPLE)
    assert caught.value.rounds == 0
    endless = replace(given, rounds=None, deadline=math.inf, budget=math.inf)
    with pytest.raises(ValueError, match=r"Limits\.rounds is needed"):
        fixed_plan(fleet, endless, EXAMPLE)


def test_without_a_geometry_the_bound_is_unknown() -> None:
    fleet, given = example()
    with_bound, without = fixed_plan(fleet, given, EXAMPLE), fixed_plan(fleet, given)
    assert math.isnan(without.bound)
    assert without.rounds == with_bound.rounds
    assert without.batch_sizes.tolist() == with_bound.batch_sizes.tolist()
