import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from dynamite_fl import Fleet, Infeasible, Limits, LossGeometry, Plan, cooptimize
from dynamite_fl.plan._problem import round_cost, round_seconds
from dynamite_fl.plan.bounds import (
    Bound,
    cumulative_bound,
    gradient_noise,
    marginal_bound,
    tight_cumulative_bound,
)
from dynamite_fl.plan.cooptfl import best_plan, bound_by_steps
from dynamite_fl.records import FloatArray
from tests.examples import examples
from tests.plan.fixtures import EXAMPLE, example
from tests.plan.oracles import enumerated_bound
from tests.plan.strategies import fleets, geometries, limits, problems

BOUNDS = [cumulative_bound, tight_cumulative_bound, marginal_bound]


def most_noise_matters(
    geometry: LossGeometry, rounds: ArrayLike, local_steps: ArrayLike, gradient_noise: ArrayLike
) -> FloatArray:
    """An objective of a user's own: as little noise and as many steps as possible."""
    del geometry
    steps = np.asarray(rounds) * np.asarray(local_steps)
    return np.asarray(np.asarray(gradient_noise) + 1 / steps)


def check_keeps_limits(plan: Plan, fleet: Fleet, given: Limits) -> None:
    """Every limit, by the paper's inequalities, to the last bit."""
    assert plan.seconds <= given.deadline
    assert plan.cost <= given.budget
    assert plan.batch_sizes.dtype == np.int64
    assert (plan.batch_sizes >= fleet.least_batches).all()
    assert (plan.batch_sizes <= fleet.at_hand).all()
    assert 1 <= plan.local_steps <= given.max_local_steps
    seconds = round_seconds(fleet, plan.local_steps, plan.batch_sizes).max()
    assert plan.seconds == plan.rounds * seconds
    assert plan.cost == plan.rounds * round_cost(given, plan.local_steps, plan.total_batch)


@examples(2500)
@given(
    st.one_of(problems(), st.tuples(fleets(), limits(rounds=st.integers(1, 20)))),
    geometries,
    st.sampled_from([*BOUNDS, most_noise_matters]),
)
def test_plan_is_the_best_of_all(
    problem: tuple[Fleet, Limits], geometry: LossGeometry, objective: Bound
) -> None:
    check_is_the_best_of_all(*problem, geometry, objective)


def check_is_the_best_of_all(
    fleet: Fleet, given: Limits, geometry: LossGeometry, objective: Bound
) -> None:
    rounds = range(given.rounds or 1, (given.rounds or 1) + 1)
    best = enumerated_bound(fleet, given, geometry, objective, rounds=rounds)
    if math.isinf(best):
        with pytest.raises(Infeasible):
            cooptimize(fleet, given, geometry, objective)
        return
    plan = cooptimize(fleet, given, geometry, objective)
    check_keeps_limits(plan, fleet, given)
    assert plan.rounds == given.rounds
    assert plan.bound == pytest.approx(best, rel=1e-12)


@examples(600)
@given(
    fleets(least=st.integers(1, 6)),
    limits(rounds=st.integers(1, 12)),
    geometries,
    st.sampled_from(BOUNDS),
)
def test_plan_of_least_batches_is_the_best_of_all(
    fleet: Fleet, given: Limits, geometry: LossGeometry, objective: Bound
) -> None:
    check_is_the_best_of_all(fleet, given, geometry, objective)


@examples(500)
@given(
    st.one_of(fleets(clients=2, samples=4), fleets(clients=2, samples=4, least=st.integers(1, 5))),
    limits(rounds=st.none(), max_local_steps=4),
    geometries,
    st.sampled_from([cumulative_bound, tight_cumulative_bound, most_noise_matters]),
)
def test_open_rounds_are_the_best_of_all(
    fleet: Fleet, given: Limits, geometry: LossGeometry, objective: Bound
) -> None:
    given = replace(given, budget=min(given.budget, 12.0))  # at most 120 rounds to look at
    best = enumerated_bound(fleet, given, geometry, objective, rounds=range(1, 121))
    if math.isinf(best):
        with pytest.raises(Infeasible):
            cooptimize(fleet, given, geometry, objective)
        return
    plan = cooptimize(fleet, given, geometry, objective)
    check_keeps_limits(plan, fleet, given)
    assert plan.bound == pytest.approx(best, rel=1e-11)


@examples(25)
@given(
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.sampled_from([cumulative_bound, tight_cumulative_bound]),
)
def test_open_rounds_are_the_best_of_middle_sized_ones(seed: int, n: int, objective: Bound) -> None:
    """Limits that fit the fleet, so that most optima lie between one round and the most."""
    rng = np.random.default_rng(seed)
    fleet = random_fleet(rng, n)
    seconds = float(round_seconds(fleet, 1, np.ones(n)).max())
    most = int(rng.integers(20, 400))
    given = Limits(
        deadline=most * seconds * rng.uniform(0.5, 2),
        budget=most * (1e-3 * n + 0.2) * rng.uniform(0.5, 2),
        cost_per_sample=1e-3,
        cost_per_round=0.2,
        max_local_steps=12,
    )
    geometry = LossGeometry(
        learning_rate=0.05,
        quadratic_bound=rng.uniform(0.1, 10),
        smoothness=rng.uniform(0.1, 10),
        pl_constant=10 ** rng.uniform(-2, 1),
        divergence=rng.uniform(0, 5),
        loss_gap=rng.uniform(0.1, 5),
    )
    plan = cooptimize(fleet, given, geometry, objective)
    steps = np.arange(1, 13)
    best = min(
        bound_by_steps(fleet, given, geometry, objective, rounds=k, local_steps=steps).min()
        for k in range(1, 2 * most + 2)
    )
    assert plan.bound == pytest.approx(best, rel=1e-11)


def test_open_rounds_with_their_best_in_the_middle() -> None:
    """An objective whose least is anything but where a careless lower bound would look."""

    def near_137(
        geometry: LossGeometry, rounds: ArrayLike, local_steps: ArrayLike, noise: ArrayLike
    ) -> FloatArray:
        del geometry
        far = np.abs(np.asarray(rounds) - 137.0)
        return np.asarray(far + np.asarray(noise) + np.asarray(local_steps))

    fleet, given = example()
    plan = cooptimize(fleet, replace(given, rounds=None), EXAMPLE, near_137)
    assert (plan.rounds, plan.local_steps) == (137, 1)


def test_of_equal_rounds_the_fewest_are_chosen() -> None:
    """The gap is all gone long before the limits are: more rounds would only cost."""
    fleet, given = example()
    given = replace(given, rounds=None, deadline=math.inf, budget=1e7)
    geometry = replace(EXAMPLE, pl_constant=10, learning_rate=0.05)
    plan = cooptimize(fleet, given, geometry)
    fewer = cooptimize(fleet, replace(given, rounds=plan.rounds - 1), geometry)
    more = cooptimize(fleet, replace(given, rounds=4 * plan.rounds), geometry)
    assert fewer.bound > plan.bound * (1 + 1e-13)
    assert more.bound == pytest.approx(plan.bound, rel=1e-11)


@examples(100)
@given(limits(rounds=st.integers(1, 50), max_local_steps=60), geometries, st.integers(0, 10**6))
def test_what_is_never_sized_could_not_have_won(
    given: Limits, geometry: LossGeometry, seed: int
) -> None:
    """The search skips local steps; looking at all of them gives the same."""
    rng = np.random.default_rng(seed)
    fleet = random_fleet(rng, 50)
    given = replace(given, budget=given.budget * 50, deadline=given.deadline * 10)
    try:
        plan = cooptimize(fleet, given, geometry)
    except Infeasible:
        assume(False)
    steps = np.arange(1, given.max_local_steps + 1)
    rounds = given.rounds or 1
    bounds = bound_by_steps(fleet, given, geometry, rounds=rounds, local_steps=steps)
    assert plan.bound == pytest.approx(bounds.min(), rel=1e-12)
    # Of plans that differ by less than rounding, either is right.
    assert bounds[plan.local_steps - 1] == pytest.approx(bounds.min(), rel=1e-12)


def random_fleet(rng: np.random.Generator, n: int) -> Fleet:
    return Fleet(
        samples=rng.integers(100, 5000, n),
        gradient_variance=rng.lognormal(1, 1, n),
        samples_per_second=rng.lognormal(5, 0.5, n),
        step_overhead=rng.uniform(0, 0.02, n),
        comm_seconds=rng.uniform(0.05, 0.3, n),
    )


@examples(100)
@given(st.integers(0, 10**6), st.floats(1, 100), st.floats(1, 100))
def test_noise_rises_with_rounds_and_steps(seed: int, deadline: float, budget: float) -> None:
    """What the search rests on."""
    rng = np.random.default_rng(seed)
    fleet = random_fleet(rng, 8)
    given = Limits(deadline=deadline, budget=budget, cost_per_sample=1e-3, cost_per_round=0.1)
    steps = np.arange(1, 40)

    def noise_itself(
        geometry: LossGeometry, rounds: ArrayLike, local_steps: ArrayLike, noise: ArrayLike
    ) -> FloatArray:
        del geometry, rounds, local_steps
        return np.asarray(noise)

    previous = np.zeros(steps.size)
    for rounds in (1, 2, 3, 5, 8, 13, 40, 100):
        noise = bound_by_steps(
            fleet, given, EXAMPLE, noise_itself, rounds=rounds, local_steps=steps
        )
        assert (noise[1:] >= noise[:-1] * (1 - 1e-12)).all()
        assert (noise >= previous * (1 - 1e-12)).all()
        previous = noise


@pytest.mark.parametrize("objective", BOUNDS[:2])
def test_local_steps_fall_to_one_as_rounds_grow(objective: Bound) -> None:
    """Remark 1, at the same seconds and cost a round."""
    fleet, given = example()
    chosen = []
    for rounds in (10, 100, 1000, 10_000, 100_000, 1_000_000):
        scaled = replace(given, rounds=rounds, deadline=1.5 * rounds, budget=3.4 * rounds)
        chosen.append(cooptimize(fleet, scaled, EXAMPLE, objective).local_steps)
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > 10
    assert chosen[-1] == 1


def test_an_objective_without_a_geometry() -> None:
    fleet, given = example()
    plan = best_plan(fleet, given, partial(cumulative_bound, EXAMPLE))
    same = cooptimize(fleet, given, EXAMPLE)
    assert (plan.local_steps, plan.bound) == (same.local_steps, same.bound)
    assert plan.batch_sizes.tolist() == same.batch_sizes.tolist()


def test_bound_is_the_objective_of_the_plan() -> None:
    fleet, given = example()
    plan = cooptimize(fleet, given, EXAMPLE)
    noise = gradient_noise(fleet, plan.batch_sizes)
    assert plan.bound == cumulative_bound(EXAMPLE, plan.rounds, plan.local_steps, noise)


def test_the_plan_names_the_limits_that_bind() -> None:
    fleet, given = example()
    rich = replace(given, budget=math.inf, deadline=math.inf, max_local_steps=1)
    cases = {
        "budget": replace(given, budget=8000),
        "deadline": replace(given, deadline=1800),
        "samples": rich,
        "max_local_steps": rich,
    }
    for limit, changed in cases.items():
        assert limit in cooptimize(fleet, changed, EXAMPLE).binding
    assert cooptimize(fleet, rich, EXAMPLE).binding == ("samples", "max_local_steps")
    tight_budget = replace(given, budget=7000, deadline=math.inf)
    assert cooptimize(fleet, tight_budget, EXAMPLE).binding == ("budget",)


def test_what_binds_where_samples_are_not_the_question() -> None:
    """Constant step time, or nothing to gain from samples: time still keeps from more steps."""
    fleet, given = example()
    fast = Fleet(**{**vars(fleet), "samples_per_second": math.inf})
    short = cooptimize(fast, replace(given, deadline=1300), EXAMPLE)
    assert short.local_steps == 1
    assert "deadline" in short.binding
    still = Fleet(**{**vars(fleet), "gradient_variance": 0.0})
    assert cooptimize(still, replace(given, deadline=1400), EXAMPLE).binding == ("deadline",)
    assert cooptimize(still, replace(given, budget=6100), EXAMPLE).binding == ("budget",)
    assert cooptimize(still, given, EXAMPLE).binding == ()
    free = replace(given, rounds=None, budget=math.inf, deadline=1000)
    assert "deadline" in cooptimize(still, free, EXAMPLE).binding


def test_the_most_local_steps_bind_only_if_more_would_help() -> None:
    fleet, given = example()
    best = cooptimize(fleet, given, EXAMPLE).local_steps
    fewer = cooptimize(fleet, replace(given, max_local_steps=best - 1), EXAMPLE)
    assert "max_local_steps" in fewer.binding
    just = replace(given, max_local_steps=best, budget=math.inf, deadline=math.inf)
    steep = replace(EXAMPLE, divergence=1e3)
    assert cooptimize(fleet, replace(just, max_local_steps=1), steep).local_steps == 1
    assert (
        "max_local_steps" not in cooptimize(fleet, replace(just, max_local_steps=1), steep).binding
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"samples_per_second": 1e30},
        {"samples_per_second": 1e-30, "comm_seconds": 0},
        {"gradient_variance": 1e30},
        {"gradient_variance": [1e30] + [1e-30] * 19},
        {"comm_seconds": 1e-30},
    ],
)
def test_extreme_fleets(changes: dict[str, object]) -> None:
    fleet, given = example()
    extreme = Fleet(**{**vars(fleet), **changes})
    if changes.get("samples_per_second") == 1e-30:
        with pytest.raises(Infeasible, match=r"deadline = 30{33}"):
            cooptimize(extreme, given, EXAMPLE)
    else:
        check_keeps_limits(cooptimize(extreme, given, EXAMPLE), extreme, given)


@pytest.mark.parametrize("field", list(vars(EXAMPLE)))
@pytest.mark.parametrize("value", [1e30, 1e-30])
@pytest.mark.filterwarnings("ignore::dynamite_fl.records.LearningRateWarning")
def test_extreme_losses(field: str, value: float) -> None:
    fleet, given = example()
    geometry = replace(EXAMPLE, **{field: value})
    for rounds in (given.rounds, None):
        limits = replace(given, rounds=rounds)
        plan = cooptimize(fleet, limits, geometry)
        check_keeps_limits(plan, fleet, limits)
        assert math.isfinite(plan.bound)


def test_a_buffer_limits_batches_below_the_samples() -> None:
    fleet = Fleet(
        samples=[50, 9],
        gradient_variance=1,
        samples_per_second=100,
        comm_seconds=0,
        buffer_size=[20, 20],
    )
    free = Limits(
        rounds=1,
        deadline=math.inf,
        budget=math.inf,
        cost_per_sample=1,
        cost_per_round=1,
        max_local_steps=1,
    )
    plan = cooptimize(fleet, free, EXAMPLE)
    assert plan.batch_sizes.tolist() == [20, 9]
    assert plan.binding == ("samples", "buffer_size", "max_local_steps")


def test_clients_that_do_not_vary_get_one_sample() -> None:
    fleet = Fleet(
        samples=[50, 50], gradient_variance=[0, 2], samples_per_second=100, comm_seconds=0
    )
    given = Limits(rounds=1, deadline=10, budget=1000, cost_per_sample=1, cost_per_round=1)
    assert cooptimize(fleet, given, EXAMPLE).batch_sizes[0] == 1


def test_open_rounds_need_a_limit_that_ends_them() -> None:
    fleet, given = example()
    endless = replace(given, rounds=None, deadline=math.inf, budget=math.inf)
    with pytest.raises(ValueError, match=r"Limits\.rounds is needed"):
        cooptimize(fleet, endless, EXAMPLE)


def test_ties_go_to_fewer_steps() -> None:
    def indifferent(
        geometry: LossGeometry, rounds: ArrayLike, local_steps: ArrayLike, noise: ArrayLike
    ) -> FloatArray:
        del geometry, rounds, local_steps
        return np.zeros(np.shape(noise))

    fleet, given = example()
    assert cooptimize(fleet, given, EXAMPLE, indifferent).local_steps == 1
