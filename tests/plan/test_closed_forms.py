import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from dynamite_fl import (
    Fleet,
    Infeasible,
    Limits,
    LossGeometry,
    constant_time_plan,
    cooptimize,
    uniform_plan,
)
from dynamite_fl.plan._problem import cases, total_ceilings
from dynamite_fl.plan.bounds import Bound, cumulative_bound, tight_cumulative_bound
from tests.examples import examples
from tests.plan.fixtures import EXAMPLE, example
from tests.plan.oracles import enumerated_bound
from tests.plan.strategies import fleets, geometries, limits


@examples(800)
@given(
    fleets(),
    limits(rounds=st.integers(1, 20)),
    geometries,
    st.sampled_from([cumulative_bound, tight_cumulative_bound]),
)
def test_uniform_plan_is_the_best_uniform_one(
    fleet: Fleet, given: Limits, geometry: LossGeometry, objective: Bound
) -> None:
    rounds = range(given.rounds or 1, (given.rounds or 1) + 1)
    best = enumerated_bound(fleet, given, geometry, objective, rounds=rounds, uniform=True)
    if math.isinf(best):
        with pytest.raises(Infeasible):
            uniform_plan(fleet, given, geometry, objective)
        return
    plan = uniform_plan(fleet, given, geometry, objective)
    assert plan.bound == pytest.approx(best, rel=1e-12)
    assert plan.seconds <= given.deadline
    assert plan.cost <= given.budget


@examples(300)
@given(fleets(least=st.just(3)), limits(rounds=st.integers(1, 12)), geometries)
def test_a_uniform_plan_keeps_to_the_least_batch(
    fleet: Fleet, given: Limits, geometry: LossGeometry
) -> None:
    """A client with fewer samples makes all batches smaller, as without a least batch."""
    rounds = range(given.rounds or 1, (given.rounds or 1) + 1)
    try:
        plan = uniform_plan(fleet, given, geometry)
    except Infeasible:  # the least batches do not fit, for which each client has what it can
        assume(False)
    best = enumerated_bound(fleet, given, geometry, cumulative_bound, rounds=rounds, uniform=True)
    assert plan.bound == pytest.approx(best, rel=1e-12)
    assert plan.batch_sizes[0] >= min(3, fleet.at_hand.min())


@given(
    st.integers(1, 8),
    st.integers(1, 6),
    st.integers(1, 12),
    geometries,
    st.floats(0.05, 10),
    st.floats(0.5, 100),
)
def test_uniform_plan_is_optimal_for_equal_clients(
    n: int, steps: int, size: int, geometry: LossGeometry, variance: float, speed: float
) -> None:
    """The case that Theorem 2 describes: with a budget for equal batches, no plan is better."""
    fleet = Fleet(
        samples=[50] * n, gradient_variance=variance, samples_per_second=speed, comm_seconds=0.1
    )
    given = Limits(
        rounds=5,
        deadline=math.inf,
        budget=5 * (0.5 * steps * n * size + 1),
        cost_per_sample=0.5,
        cost_per_round=1,
        max_local_steps=20,
    )
    # At other local steps the budget may not divide among the clients: judge those that do.
    judged = replace(given, max_local_steps=1) if steps == 1 else given
    uniform = uniform_plan(fleet, judged, geometry)
    best = cooptimize(fleet, judged, geometry)
    assume(best.total_batch % n == 0)
    assert best.bound == pytest.approx(uniform.bound, rel=1e-12)
    assert best.batch_sizes.tolist() == uniform.batch_sizes.tolist()


@pytest.mark.parametrize("changes", [{}, {"deadline": 2000, "budget": 20_000}, {"rounds": 500}])
def test_the_papers_stationary_point_is_close_but_not_exact(changes: dict[str, float]) -> None:
    """Theorem 2's real-valued tau, from f with unrounded batch sizes, against whole numbers."""
    fleet, given = example()
    given = replace(given, **changes)  # type: ignore[arg-type]
    rounds = given.rounds or 1
    g, weight = EXAMPLE, float((fleet.gradient_variance * fleet.share**2).sum())

    def size(tau: float) -> float:
        by_cost = (given.budget / rounds - given.cost_per_round) / (given.cost_per_sample * tau)
        by_time = (given.deadline / rounds - fleet.comm_seconds) / tau - fleet.step_overhead
        return min(by_cost / len(fleet), float((by_time * fleet.samples_per_second).min()))

    def f(tau: float) -> float:
        q, eta = 1 - g.learning_rate * g.pl_constant, g.learning_rate
        h = g.divergence / g.smoothness * ((1 + eta * g.smoothness) ** tau - 1)
        h -= eta * g.divergence * tau
        noise = g.smoothness * eta**2 / 2 * (1 - q**tau) / (1 - q) * weight / size(tau)
        error = noise + g.quadratic_bound * h**2
        return float(q ** (rounds * tau) * g.loss_gap + (1 - q**rounds) / (1 - q) * error)

    most = max(tau for tau in range(1, 101) if size(tau) >= 1)
    stationary = minimize_scalar(f, bounds=(1, most), method="bounded").x
    plan = uniform_plan(fleet, given, g)
    assert abs(plan.local_steps - stationary) <= 2
    # No integer plan can beat the relaxation.
    assert plan.bound >= f(stationary) * (1 - 1e-6)


def test_rounding_the_stationary_point_can_miss_the_best() -> None:
    """Why all whole tau are compared: 10.9 samples a round are 1 each at the nearest tau, 7
    and 8, but 2 each at 5."""
    fleet = Fleet(samples=[100], gradient_variance=5, samples_per_second=1, comm_seconds=0)
    geometry = LossGeometry(
        learning_rate=0.1,
        quadratic_bound=1,
        smoothness=2,
        pl_constant=0.3,
        divergence=0.1,
        loss_gap=3,
    )
    given = Limits(rounds=2, deadline=math.inf, budget=23.8, cost_per_sample=1, cost_per_round=1)
    stationary = minimize_scalar(
        lambda tau: relaxed(geometry, 2, tau, 5 / (10.9 / tau)), bounds=(1, 10.9), method="bounded"
    ).x
    assert 7 < stationary < 8
    plan = uniform_plan(fleet, given, geometry)
    assert (plan.local_steps, plan.batch_sizes.tolist()) == (5, [2])
    assert plan.bound < min(relaxed(geometry, 2, tau, 5 / 1) for tau in (7, 8))


def relaxed(g: LossGeometry, rounds: int, tau: float, noise: float) -> float:
    q, eta = 1 - g.learning_rate * g.pl_constant, g.learning_rate
    h = g.divergence / g.smoothness * ((1 + eta * g.smoothness) ** tau - 1)
    h -= eta * g.divergence * tau
    error = g.smoothness * eta**2 / 2 * (1 - q**tau) / (1 - q) * noise + g.quadratic_bound * h**2
    return float(q ** (rounds * tau) * g.loss_gap + (1 - q**rounds) / (1 - q) * error)


def gpus(
    samples: list[int], variance: list[float], step: float = 0.2, least: int | None = None
) -> Fleet:
    return Fleet(
        samples=samples,
        gradient_variance=variance,
        samples_per_second=math.inf,
        step_overhead=step,
        comm_seconds=0.5,
        least_batch=least,
    )


def test_corollary_1_by_hand() -> None:
    """Roots are in the ratio 1 : 2 : 3, and 2 steps of 60 samples cost what a round may."""
    fleet = gpus([1000, 1000, 3000], [1, 4, 1])
    given = Limits(
        rounds=10,
        deadline=10 * 0.99,  # two steps of 0.2 s beside 0.5 s, not three
        budget=10 * (2 * 60 + 5),
        cost_per_sample=1,
        cost_per_round=5,
    )
    geometry = replace(EXAMPLE, pl_constant=2)
    plan = constant_time_plan(fleet, given, geometry)
    assert plan.local_steps == 2
    assert plan.batch_sizes.tolist() == [10, 20, 30]
    assert cooptimize(fleet, given, geometry).batch_sizes.tolist() == [10, 20, 30]


@examples(300)
@given(
    st.lists(st.tuples(st.integers(1, 400), st.floats(0.01, 50)), min_size=1, max_size=12),
    limits(rounds=st.integers(1, 20), max_local_steps=20),
    geometries,
    st.sampled_from([None, 5]),
)
def test_corollary_1_is_the_optimum_but_for_rounding_down(
    clients: list[tuple[int, float]], given: Limits, geometry: LossGeometry, least: int | None
) -> None:
    fleet = gpus([d for d, _ in clients], [m for _, m in clients], least=least)
    given = replace(given, budget=given.budget * 20)
    try:
        plan = constant_time_plan(fleet, given, geometry)
    except Infeasible:
        assume(False)
    assert plan.seconds <= given.deadline
    assert plan.cost <= given.budget
    assert (plan.batch_sizes >= fleet.least_batches).all()
    assert (plan.batch_sizes <= fleet.at_hand).all()
    # All that is affordable is spent, but for less than a sample a client.
    case = cases(plan.rounds, plan.local_steps, given.deadline, given.budget)
    assert plan.total_batch > total_ceilings(fleet, given, case)[0] - len(fleet)
    assert cooptimize(fleet, given, geometry).bound <= plan.bound * (1 + 1e-12)
    # Clients that are held by neither end have shares in proportion to their roots.
    roots = np.sqrt(fleet.gradient_variance) * fleet.samples
    free = (plan.batch_sizes > fleet.least_batches) & (plan.batch_sizes < fleet.at_hand)
    low = (plan.batch_sizes / roots)[free]
    high = ((plan.batch_sizes + 1) / roots)[free]
    assert not free.any() or low.max() <= high.min() * (1 + 1e-9)


def test_corollary_1_spends_no_more_than_all_data() -> None:
    fleet = gpus([5, 9], [1, 1])
    rich = Limits(rounds=1, deadline=10, budget=10**6, cost_per_sample=1, cost_per_round=1)
    assert constant_time_plan(fleet, rich, EXAMPLE).batch_sizes.tolist() == [5, 9]


def test_corollary_1_where_samples_gain_nothing_or_all() -> None:
    given = Limits(rounds=4, deadline=99, budget=800, cost_per_sample=1, cost_per_round=1)
    assert constant_time_plan(gpus([50, 9], [0, 0]), given, EXAMPLE).batch_sizes.tolist() == [1, 1]
    rng = np.random.default_rng(0)
    for _ in range(200):
        fleet = gpus([50] * 8, (10 ** rng.uniform(-12, 12, 8)).tolist())
        plan = constant_time_plan(fleet, given, EXAMPLE)
        assert plan.cost <= given.budget


def test_the_budget_binds_a_uniform_plan_that_cannot_grow_for_all() -> None:
    fleet, given = example()
    assert "budget" in uniform_plan(fleet, given, EXAMPLE).binding


def test_closed_forms_say_what_they_need() -> None:
    fleet, given = example()
    with pytest.raises(ValueError, match=r"Limits\.rounds is needed"):
        uniform_plan(fleet, replace(given, rounds=None), EXAMPLE)
    with pytest.raises(ValueError, match=r"Fleet\.samples_per_second must be infinite"):
        constant_time_plan(fleet, given, EXAMPLE)
