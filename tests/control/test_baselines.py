import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dynamite_fl import Fleet, Infeasible, Limits, LossGeometry, cooptimize
from dynamite_fl.control.cooptfl import CoOptFL
from dynamite_fl.control.dbfl import DBFL, Growth, matched_growth
from dynamite_fl.control.dynamic_tau import DynamicTau, wang_bound
from dynamite_fl.control.fedavg import FedAvg
from dynamite_fl.control.no_straggler import NoStraggler
from dynamite_fl.control.uniform import Uniform
from dynamite_fl.reports import RoundReport
from tests.control.simulator import probe, report

FLEET = Fleet(
    samples=[500, 500, 40],
    gradient_variance=[1, 4, 2],
    samples_per_second=[50, 100, 250],
    comm_seconds=0.5,
)
LIMITS = Limits(rounds=100, deadline=400, budget=1000, cost_per_sample=0.01, cost_per_round=2)
ALL = np.arange(3)
GEOMETRY = LossGeometry(
    learning_rate=0.01,
    quadratic_bound=5,
    smoothness=2,
    pl_constant=0.2,
    divergence=2,
    loss_gap=2.3,
)


def round_of(sizes: list[int], seconds: list[float], **more: Any) -> RoundReport:
    return report(
        [0, 1, 2],
        sizes=sizes,
        step_seconds=seconds,
        comm_seconds=[0.5] * 3,
        samples=[*FLEET.samples],
        **more,
    )


STEADY = round_of([60, 60, 40], [1.2, 0.6, 0.16])  # as the fleet says


def test_fedavg() -> None:
    """2 * 60/50 + 0.5 = 2.9 s a round: 137 of them in 400 s; costs 0.01 * 2 * 160 + 2 = 5.2."""
    plan, state = FedAvg().start(FLEET, LIMITS, ALL)
    assert (plan.rounds, plan.local_steps) == (100, 2)
    assert plan.batch_sizes.tolist() == [60, 60, 40]
    assert plan.seconds == pytest.approx(290)
    assert plan.cost == pytest.approx(520)
    assert math.isnan(plan.bound)
    plan, state = FedAvg().adapt(STEADY, replace(LIMITS, rounds=None), ALL, state)
    assert plan.rounds == 137
    plan, state = FedAvg().adapt(STEADY, replace(LIMITS, budget=53), np.array([2, 0]), state)
    assert (plan.rounds, plan.batch_sizes.tolist()) == (13, [40, 60])  # 4 a round
    with pytest.raises(Infeasible):
        FedAvg().adapt(STEADY, replace(LIMITS, budget=5), ALL, state)


def test_fixed() -> None:
    plan, _ = FedAvg(local_steps=5, batch_size=7).start(FLEET, LIMITS, ALL)
    assert (plan.local_steps, plan.batch_sizes.tolist()) == (5, [7, 7, 7])


def test_rounds_without_end() -> None:
    endless = replace(LIMITS, rounds=None, deadline=math.inf, budget=math.inf)
    with pytest.raises(ValueError, match="rounds is needed"):
        FedAvg().start(FLEET, endless, ALL)


def test_uniform() -> None:
    """Budget: (1000/100 - 2)/(0.01 * 2) = 400 samples; deadline: 50 * (4 - 0.5)/2 = 87.5."""
    plan, state = Uniform().start(FLEET, LIMITS, ALL)
    assert plan.batch_sizes.tolist() == [87, 87, 40]
    plan, state = Uniform().adapt(STEADY, replace(LIMITS, deadline=20), ALL, state)
    assert (plan.rounds, plan.batch_sizes.tolist()) == (5, [87, 87, 40])  # set before training
    plan, _ = Uniform().start(FLEET, replace(LIMITS, budget=460), ALL)
    assert plan.batch_sizes.tolist() == [45, 45, 40]  # 130 samples
    plan, _ = Uniform().start(FLEET, replace(LIMITS, budget=100), ALL)
    assert (plan.rounds, plan.batch_sizes.tolist()) == (48, [1, 1, 1])
    plan, _ = Uniform().start(FLEET, replace(LIMITS, rounds=None), ALL)
    assert plan.batch_sizes.tolist() == [60, 60, 40]


def test_no_straggler() -> None:
    """180 samples by speeds of 50, 100, 250: 22.5, 45, 112.5, of which the last has 40."""
    plan, state = NoStraggler().start(FLEET, LIMITS, ALL)
    assert plan.batch_sizes.tolist() == [22, 45, 40]
    # Steps show speeds of 100, 50, 250: without overhead one measurement is enough.
    seen = round_of([22, 45, 40], [0.22, 0.9, 0.16])
    plan, _ = NoStraggler().adapt(seen, LIMITS, np.array([0, 1]), state)
    assert plan.batch_sizes.tolist() == [80, 40]


def test_no_straggler_gives_everyone_a_sample() -> None:
    fleet = Fleet(
        samples=[90, 90], gradient_variance=1, samples_per_second=[1, 1000], comm_seconds=0
    )
    plan, _ = NoStraggler().start(fleet, LIMITS, np.arange(2))
    assert plan.batch_sizes.tolist() == [1, 90]


def test_growth() -> None:
    """Factors 1.1, 1.05, 1.025: 20, 22, 23.1, 23.6775."""
    path = Growth(start=20, growth=0.1, decay=0.5, ceiling=100)
    assert path.sizes(4).tolist() == [20, 22, 24, 24]
    constant = Growth(start=100, growth=0.1, decay=1.0, ceiling=130)
    assert constant.sizes(4).tolist() == [100, 110, 121, 130]


@pytest.mark.parametrize("rounds", [1, 2, 10, 30, 100, 1000, 20_000])
@pytest.mark.parametrize("size", [1, 2, 10, 60, 500])
def test_growth_takes_as_many_samples(rounds: int, size: int) -> None:
    path = matched_growth(rounds, size, start=min(10, size), growth=0.1, ceiling=10 * size)
    total = path.sizes(rounds).sum()
    assert rounds * (size - 1) < total <= rounds * size  # batch sizes are whole
    assert (np.diff(path.sizes(rounds)) >= 0).all()
    if size == 60 and rounds >= 100:
        assert path.start == 10


def test_dbfl() -> None:
    controller = DBFL()
    plan, state = controller.start(FLEET, LIMITS, ALL)
    assert plan.batch_sizes.tolist() == [10, 10, 10]
    sizes = state.path.sizes(100)
    assert 6000 - 20 <= sizes.sum() <= 6000
    for index in (1, 2, 50, 99):
        plan, state = controller.adapt(replace(STEADY, round_index=index), LIMITS, ALL, state)
        assert plan.batch_sizes[0] == sizes[index]
        assert plan.local_steps == 2


def test_dbfl_counts_the_rounds_that_fit() -> None:
    _, state = DBFL().start(FLEET, replace(LIMITS, deadline=145), ALL)  # 50 of 2.9 s
    assert 3000 - 20 <= state.path.sizes(50).sum() <= 3000


def measured(lipschitz: float, smoothness: float, divergence: float) -> RoundReport:
    each = {"lipschitz": lipschitz, "smoothness": smoothness, "divergence": divergence}
    columns = {name: [value] * 3 for name, value in each.items()}
    return round_of(
        [60, 60, 40],
        [1.2, 0.6, 0.16],
        round_index=2,
        probe=probe(3, loss=[1] * 3, pl_constant=[1] * 3, **columns),
    )


def test_dynamic_tau_by_hand() -> None:
    """A slowest step takes 1.2 s and a round 0.5 s more; a step costs 1.6 and a round 2 more."""
    controller = DynamicTau(learning_rate=0.05, phi=0.05)
    plan, state = controller.start(FLEET, LIMITS, ALL)
    assert (plan.local_steps, plan.batch_sizes.tolist()) == (1, [60, 60, 40])
    plan, state = controller.adapt(STEADY, LIMITS, ALL, state)
    assert plan.local_steps == 1  # nothing was measured

    values = []
    for tau in range(1, 11):
        by_time = (400 - 1.2 - 0.5) * tau / (1.2 * tau + 0.5)
        by_cost = (1000 - 1.6 - 2) * tau / (1.6 * tau + 2)
        steps = min(by_time, by_cost)
        h = 1 / 5 * ((1 + 0.05 * 5) ** tau - 1) - 0.05 * 1 * tau
        root = math.sqrt(1 + 4 * steps**2 * 0.05 * 0.01 * 0.05 * h / tau)
        values.append((1 + root) / (2 * steps * 0.05 * 0.05) + 0.01 * h)
    assert np.argmin(values) == 3
    assert values[3] == pytest.approx(1.395, abs=1e-3)
    plan, state = controller.adapt(measured(0.01, 5, 1), replace(LIMITS, rounds=98), ALL, state)
    assert plan.local_steps == 4
    assert plan.batch_sizes.tolist() == [60, 60, 40]


def test_dynamic_tau_rises_tenfold_at_most() -> None:
    controller = DynamicTau(learning_rate=0.1)
    _, state = controller.start(FLEET, LIMITS, ALL)
    free = replace(LIMITS, max_local_steps=64)
    taken = []
    for _ in range(3):  # no divergence: as many local steps as may be
        plan, state = controller.adapt(measured(1, 1, 0), free, ALL, state)
        taken.append(plan.local_steps)
    assert taken == [10, 64, 64]


def test_dynamic_tau_cuts_the_last_round_to_fit() -> None:
    controller = DynamicTau(learning_rate=0.1)
    _, state = controller.start(FLEET, LIMITS, ALL)
    plan, _ = controller.adapt(measured(1, 1, 0), replace(LIMITS, deadline=5.4), ALL, state)
    assert (plan.rounds, plan.local_steps) == (1, 4)  # 4 * 1.2 + 0.5 = 5.3
    with pytest.raises(Infeasible):
        controller.adapt(measured(1, 1, 0), replace(LIMITS, deadline=1.6), ALL, state)


def test_dynamic_tau_may_count_rounds() -> None:
    """With so few rounds that time and money never run out, more local steps are free."""
    few = replace(LIMITS, rounds=3)
    steps = []
    for counted in (False, True):
        controller = DynamicTau(learning_rate=0.1, phi=0.5, count_rounds=counted)
        _, state = controller.start(FLEET, few, ALL)
        steps.append(controller.adapt(measured(0.02, 5, 3), few, ALL, state)[0].local_steps)
    assert steps[0] < steps[1]


def test_wang_bound_by_hand() -> None:
    value = wang_bound(
        np.array([4]), np.array([8.0]), np.array([-1.0]), learning_rate=1, lipschitz=3, phi=0.5
    )
    assert value.tolist() == [0.25]  # h is floored at 0: 2 / (2 * 8 * 0.5)


def test_cooptfl_keeps_its_plan() -> None:
    controller = CoOptFL(geometry=GEOMETRY, gradient_variance=[5, 6, 7], samples_per_second=70)
    pilot = Fleet(
        samples=FLEET.samples,
        gradient_variance=[5, 6, 7],
        samples_per_second=70,
        comm_seconds=FLEET.comm_seconds,
    )
    best = cooptimize(pilot, LIMITS, GEOMETRY)
    plan, state = controller.start(FLEET, LIMITS, ALL)
    assert (plan.local_steps, plan.bound) == (best.local_steps, best.bound)
    assert plan.batch_sizes.tolist() == best.batch_sizes.tolist()
    plan, state = controller.adapt(STEADY, replace(LIMITS, deadline=50, rounds=99), ALL, state)
    assert plan.local_steps == best.local_steps
    assert plan.batch_sizes.tolist() == best.batch_sizes.tolist()
    assert plan.rounds < 99
    plan, state = controller.adapt(STEADY, replace(LIMITS, rounds=99), np.array([2, 0]), state)
    pair = cooptimize(pilot.subset(np.array([2, 0])), LIMITS, GEOMETRY)
    assert plan.batch_sizes.tolist() == pair.batch_sizes.tolist()
    with pytest.raises(Infeasible):
        controller.adapt(STEADY, replace(LIMITS, deadline=0.4), ALL, state)


def test_cooptfl_chooses_open_rounds_once() -> None:
    limits = replace(LIMITS, rounds=None)
    plan, state = CoOptFL(geometry=GEOMETRY).start(FLEET, limits, ALL)
    assert state.limits.rounds == plan.rounds == cooptimize(FLEET, limits, GEOMETRY).rounds
