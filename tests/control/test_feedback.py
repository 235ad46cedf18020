from dataclasses import replace

import numpy as np
import pytest

from dynamite_fl import Fleet, Limits, Plan
from dynamite_fl.control.estimate.gain import GainEstimate
from dynamite_fl.control.estimate.rate import RateEstimate
from dynamite_fl.control.feedback import Feedback, FeedbackState
from dynamite_fl.reports import PathReport, RoundReport

FLEET = Fleet(
    samples=[500, 500], gradient_variance=4, samples_per_second=[100, 200], comm_seconds=0.1
)
LIMITS = Limits(rounds=100, deadline=1e4, budget=900, cost_per_sample=0.05, cost_per_round=1)
BOTH = np.array([0, 1])
RATE = 0.1
CONTROL = Feedback(learning_rate=RATE)


def state(first_gain: float, second_gain: float, steps: float = 8.0) -> FeedbackState:
    gain = GainEstimate(
        mean_way=RATE * steps, first_gain=first_gain, second_gain=second_gain, gain_weight=9.0
    )
    return FeedbackState(gain, np.array([4.0, 4.0]), 1000.0, RATE, RateEstimate(), rounds=100)


def plan_of(given: FeedbackState, limits: Limits = LIMITS) -> Plan:
    return CONTROL._plan(FLEET, limits, BOTH, given)


def of_a_round(path: PathReport, learning_rate: float = 0.1) -> RoundReport:
    return RoundReport(
        round_index=1,
        clients=BOTH,
        local_steps=2,
        learning_rate=learning_rate,
        batch_sizes=np.array([9, 9]),
        present=np.array([True, True]),
        samples=np.array([500.0, 500.0]),
        step_seconds=np.array([0.1, 0.1]),
        comm_seconds=np.array([0.1, 0.1]),
        probe=None,
        path=path,
    )


def test_the_first_round_has_a_fair_share_of_the_limits() -> None:
    """A fiftieth of 900 pays for 340 samples of both: not for 64 steps on 4 each, but for 32."""
    plan, _ = CONTROL.start(FLEET, LIMITS, BOTH)
    assert (plan.local_steps, plan.batch_sizes.tolist()) == (32, [5, 5])
    assert plan.learning_rate == RATE


def test_a_first_round_without_room_has_four_steps_on_all_that_fits() -> None:
    """Of 900, 750 rounds leave 0.2 each for samples: 4 of them, which is one step of both."""
    plan, _ = CONTROL.start(FLEET, replace(LIMITS, budget=30, cost_per_round=0.1), BOTH)
    assert (plan.local_steps, plan.batch_sizes.tolist()) == (4, [1, 1])


def test_one_step_where_no_more_is_allowed_or_fits() -> None:
    plan, _ = CONTROL.start(FLEET, replace(LIMITS, max_local_steps=1), BOTH)
    assert plan.local_steps == 1
    tight = replace(LIMITS, rounds=1, budget=1.15)  # three samples: one step of both clients
    plan, _ = CONTROL.start(FLEET, tight, BOTH)
    assert (plan.local_steps, plan.batch_sizes.tolist()) == (1, [1, 1])


def test_local_steps_double_at_most_and_halve_where_they_lose() -> None:
    assert plan_of(state(1.0, 1.0)).local_steps == 16
    assert plan_of(state(1.0, -1.0, steps=16.0)).local_steps == 8
    grown = state(1.0, 1.0)
    grown = replace(grown, gain=replace(grown.gain, newest_way=1.2))
    assert plan_of(grown).local_steps == 24  # twice the newest, if that was more than the mean
    assert plan_of(state(1.0, 1.0, steps=1.0)).local_steps == 4  # never caught in single steps


def test_steps_that_diverged_are_not_tried_again() -> None:
    for fewest, steps in ((6.0, 6), (2.0, 4)):
        given = state(1.0, 1.0)
        given = replace(given, gain=replace(given.gain, most_way=RATE * fewest))
        assert plan_of(given).local_steps == steps


def test_after_a_ruin_neither_the_steps_nor_the_way_of_a_round_grow() -> None:
    """A round of 8 steps at a rate of 0.4 ruined the model: 3.2 is its way."""
    way = 8 * 0.4
    gain = GainEstimate(
        mean_way=way, newest_way=way, last_way=way, first_gain=1.0, second_gain=1.0, gain_weight=9.0
    )
    known = RateEstimate(log_stable=float(np.log(0.8)))
    given = FeedbackState(gain, np.array([4.0, 4.0]), 1000.0, 0.4, known, rounds=99)
    path = PathReport(np.zeros(1), np.zeros(1), np.zeros(2))
    noticed = replace(of_a_round(path, 0.4), local_steps=12, path=None)
    plan, after = Feedback().adapt(noticed, FLEET, LIMITS, BOTH, given)
    assert plan.learning_rate is not None
    assert plan.local_steps * plan.learning_rate > way  # there was no ruin
    ruined = replace(noticed, ruining_rate=0.4)
    for _ in range(20):
        plan, after = Feedback().adapt(ruined, FLEET, LIMITS, BOTH, given)
        assert plan.learning_rate is not None
        assert plan.local_steps * plan.learning_rate <= way / 2
        assert after.gain.most_way == way / 2
        ruined, given = noticed, after


def test_a_chosen_rate_has_batches_of_four_unless_fewer_rounds_fit() -> None:
    """The budget pays for 100 rounds of 4 steps on 4 samples of both clients, or not quite."""
    cheap = replace(LIMITS, budget=100 + 0.05 * 100 * 4 * 2 * 4)
    dear = replace(cheap, budget=cheap.budget - 0.05)
    given = state(1.0, 1.0, steps=64.0)
    for limits, smallest in ((cheap, 4), (dear, 1)):
        plan = Feedback()._plan(FLEET, limits, BOTH, given)
        assert plan.batch_sizes.min() == smallest
    assert plan_of(given, cheap).batch_sizes.min() == 1  # the rate is given
    few = FLEET.with_columns(samples=np.array([2.0, 500.0]))
    assert Feedback()._plan(few, cheap, BOTH, given).batch_sizes.tolist()[0] == 2


def test_the_last_rounds_are_short() -> None:
    for rounds, steps in ((1, 4), (2, 8), (3, 16), (5, 64), (6, 100)):  # a hundred are allowed
        limits = replace(LIMITS, rounds=rounds, budget=1e6)
        assert plan_of(state(1.0, 1.0, steps=64.0), limits).local_steps == steps


def test_in_the_last_quarter_the_largest_rate_falls_to_nothing() -> None:
    """Of 100 rounds, 75 were played or fewer: 0.8 is stable, and 20, 10, 1 remain."""
    known = replace(state(1.0, 1.0), rate=RateEstimate(log_stable=float(np.log(0.8))))
    known = replace(known, learning_rate=0.8)
    for rounds, largest in ((50, 0.8), (25, 0.8), (20, 0.64), (10, 0.32), (1, 0.032)):
        at_end = replace(known, rounds=100 - rounds)
        assert Feedback()._rates(at_end, rounds)[0] == pytest.approx(largest)
        large = replace(at_end, has_large_steps=True)
        assert Feedback()._rates(large, rounds) == pytest.approx([2 * largest])
        assert Feedback(learning_rate=0.8)._rates(at_end, rounds) == [0.8]


def test_towards_the_end_noise_weighs_more() -> None:
    """With little to gain: many rounds want steps, the last one large batches."""
    given = state(0.002, 0.002)
    many = plan_of(given)
    last = plan_of(given, replace(LIMITS, rounds=1, budget=9))
    assert last.local_steps < many.local_steps
    assert last.batch_sizes.sum() > many.batch_sizes.sum()


def test_fewer_rounds_where_they_gain_more() -> None:
    """When rounds are dear beside samples, and every step gains: longer rounds, not all."""
    dear = Limits(rounds=100, deadline=1e4, budget=300, cost_per_sample=0.05, cost_per_round=2)
    assert plan_of(state(1.0, 1.0), dear).rounds < 100
    assert plan_of(state(1.0, 1.0), replace(dear, rounds=None)).rounds < 100


def test_all_rounds_where_data_still_arrives() -> None:
    dear = Limits(rounds=100, deadline=1e4, budget=300, cost_per_sample=0.05, cost_per_round=2)
    given = replace(state(1.0, 1.0), first_samples=999.0)  # one more has come
    plan = plan_of(given, dear)
    assert plan.rounds == 100
    assert plan.local_steps >= 4
    limited = FLEET.with_columns(buffer_size=np.array([100.0, 100.0]))
    assert CONTROL._plan(limited, dear, BOTH, state(1.0, 1.0)).rounds == 100


def test_rounds_that_are_open_or_too_many_leave_room_for_local_steps() -> None:
    """One step of one sample would fit 10,000 rounds and more; four of them do not."""
    dear = Limits(deadline=1e5, budget=1000, cost_per_sample=0.05, cost_per_round=0.0)
    for rounds in (None, 5000, 9000):
        plan = plan_of(state(1.0, 1.0), replace(dear, rounds=rounds))
        assert plan.local_steps >= 4


def test_what_cannot_be_a_gradient_is_not_learned_from() -> None:
    """Of a training that fails; that it does is for the loop to say."""
    _, known = CONTROL.start(FLEET, LIMITS, BOTH)
    for far in (1e300, np.inf, np.nan):
        path = PathReport(np.array([far, 1.0]), np.ones(2), np.array([np.nan, 1e40]))
        _, after = CONTROL.adapt(of_a_round(path), FLEET, LIMITS, BOTH, known)
        assert after.gain.last_way == 0
        assert np.isnan(after.gradient_variance).all()


def test_what_a_round_shows_of_gradients_is_averaged() -> None:
    report = of_a_round(PathReport(np.ones(1), np.ones(1), np.array([14.0, np.nan])))
    _, after = CONTROL.adapt(report, FLEET, LIMITS, BOTH, state(1.0, 1.0))
    assert after.gradient_variance.tolist() == pytest.approx([7.0, 4.0])  # 0.7 * 4 + 0.3 * 14


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="learning_rate"):
        Feedback(learning_rate=0.0)


def test_gains_and_plans_follow_the_rate_of_the_round() -> None:
    """At half the rate, half the movement shows the same gradient, and changes the loss by half."""
    rounds, bounds = [], []
    for rate in (0.1, 0.05):
        halves = (np.array([rate, 0.0]), np.array([rate / 2, 0.0]))
        report = of_a_round(PathReport(*halves, np.array([4.0, 4.0])), rate)
        _, known = CONTROL.start(FLEET, LIMITS, BOTH)
        for _ in range(4):
            plan, known = CONTROL.adapt(report, FLEET, LIMITS, BOTH, known)
        assert known.gain.first_gain == pytest.approx(1.0)
        assert CONTROL.describe(known)["gain"] == pytest.approx(rate)
        rounds.append((plan.rounds, plan.local_steps, plan.batch_sizes.tolist()))
        bounds.append(plan.bound)
    assert rounds[0] == rounds[1]
    assert bounds[1] == pytest.approx(bounds[0] / 2)


# The first half of a round in one direction, and a twentieth of it in the second half.
SATURATED = PathReport(
    np.array([1.0]), np.array([0.05]), np.array([4.0, 4.0]), early_share=0.5, disagreement=6.0
)


def adapted(path: PathReport, control: Feedback) -> tuple[Plan, FeedbackState]:
    """Return the plan after a first round of 64 steps, in which clients found a rate of 0.2."""
    _, first = control.start(FLEET, LIMITS, BOTH)
    report = replace(
        of_a_round(path),
        local_steps=64,
        stable_rates=np.array([0.2, 0.2]),
        steepness=np.array([1.0, 1.0]),
    )
    return control.adapt(report, FLEET, LIMITS, BOTH, first)


def test_clients_with_nothing_in_common_begin_again_with_two_large_steps() -> None:
    """The slope falls by half at a rate of 0.2, and to nothing at twice that rate."""
    plan, after = adapted(SATURATED, Feedback())
    assert (after.has_large_steps, plan.begins_again, plan.local_steps) == (True, True, 2)
    assert plan.learning_rate == pytest.approx(0.4)
    second = replace(of_a_round(SATURATED, 0.4), round_index=2)
    plan, after = Feedback().adapt(second, FLEET, LIMITS, BOTH, after)
    assert (after.has_large_steps, plan.begins_again, plan.local_steps) == (True, False, 2)
    assert plan.learning_rate == pytest.approx(0.4)


@pytest.mark.parametrize(
    "path",
    [
        replace(SATURATED, early_share=0.4),
        replace(SATURATED, early_share=np.nan),
        replace(SATURATED, disagreement=1.0),  # all have reached the least loss
        replace(SATURATED, disagreement=np.nan),
        replace(SATURATED, second_half=np.array([0.2])),
    ],
)
def test_clients_with_something_in_common_go_on(path: PathReport) -> None:
    plan, after = adapted(path, Feedback())
    assert (after.has_large_steps, plan.begins_again) == (False, False)
    assert plan.local_steps >= 4


def test_a_given_rate_stays_whatever_clients_have_in_common() -> None:
    plan, after = adapted(SATURATED, CONTROL)
    assert (after.has_large_steps, plan.begins_again, plan.learning_rate) == (False, False, RATE)


def test_after_a_ruin_large_steps_are_half_as_large() -> None:
    _, after = adapted(SATURATED, Feedback())
    ruined = replace(of_a_round(SATURATED, 0.4), round_index=2, path=None, ruining_rate=0.4)
    plan, after = Feedback().adapt(ruined, FLEET, LIMITS, BOTH, after)
    assert (after.has_large_steps, plan.local_steps) == (True, 2)
    assert plan.learning_rate == pytest.approx(0.2)


def test_after_a_race_the_second_round_is_a_first_one_at_half_of_the_rate_that_won() -> None:
    """The stable rate 0.02 loses against eight times as much."""
    chosen = Feedback()
    first, given = chosen.start(FLEET, LIMITS, BOTH)
    path = PathReport(np.ones(3), np.ones(3), np.full(2, 4.0))
    lost = replace(
        of_a_round(path, 0.01),
        stable_rates=np.full(2, 0.02),
        steepness=np.ones(2),
        race_factors=np.ones(2),
    )
    plan, after = chosen.adapt(lost, FLEET, LIMITS, BOTH, given)
    assert plan.learning_rate == pytest.approx(0.02)
    assert after.gain.gain_weight > 0
    won = replace(lost, race_factors=np.full(2, 8.0))
    plan, after = chosen.adapt(won, FLEET, LIMITS, BOTH, given)
    assert plan.learning_rate == pytest.approx(0.16 / 2)
    assert plan.local_steps == first.local_steps
    assert after.gain.gain_weight == 0
    second = replace(of_a_round(path, 0.08), round_index=2)
    plan, after = chosen.adapt(second, FLEET, LIMITS, BOTH, after)
    assert plan.learning_rate is not None
    assert plan.learning_rate <= 0.16
    assert after.gain.gain_weight > 0
