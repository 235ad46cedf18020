import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl import Infeasible
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.errors import InvalidInput
from dynamite_fl.testing._training import LIMITS
from dynamite_fl.training.ledger import Ledger
from dynamite_fl.training.loop import _round_order, begin, rounds, run_round
from dynamite_fl.training.rate_schedule import RateSchedule
from tests.examples import examples
from tests.training.discarding import BeginsAgain
from tests.trainings import digits, training


@examples(200)
@given(
    st.sampled_from(["dynamite", "fedavg", "dynamic-tau", "no-straggler", "dbfl", "uniform"]),
    st.one_of(st.none(), st.integers(1, 6)),
    st.floats(0.05, 12),
    st.floats(0.3, 12),
    st.integers(0, 5),
)
def test_no_limits_are_overspent_and_nothing_hangs(
    name: str, number: int | None, deadline: float, budget: float, seed: int
) -> None:
    limits = {"rounds": number, "deadline": deadline, "budget": budget}
    trained = training(name, limits=limits, seed=seed, evaluate_every=100)
    try:
        start = begin(trained)
    except Infeasible:
        return
    for count, (progress, _) in enumerate(rounds(trained, start)):
        assert progress.ledger.seconds <= deadline
        assert progress.ledger.cost <= budget
        assert count < 400
    assert number is None or progress.ledger.rounds <= number


def test_one_round_is_charged_by_hand() -> None:
    """Five clients, FedAvg's two steps on 60 samples or what they have, no jitter."""
    quiet = {"jitter": 0.0, "comm_jitter": 0.0}
    trained = training("fedavg", devices=quiet)
    progress, played = run_round(trained, begin(trained))
    assert played is not None
    sizes = np.minimum(60, trained.fleet.samples)
    assert played.outcome.samples == 2 * sizes.sum()
    assert progress.ledger.cost == pytest.approx(0.002 * 2 * sizes.sum() + 0.5)
    weights = 64 * 10 + 10
    assert progress.ledger.sent_bytes == 5 * 2 * 4 * weights
    steps = 2 * (0.005 + sizes / np.array([100, 150, 300, 600, 1200]))
    comm = np.array([0.2, 0.1, 0.1, 0.05, 0.02]) + 8 * weights / 1e6
    assert progress.ledger.seconds == pytest.approx((steps + comm).max())


def test_probes_are_charged_for_what_travels_unless_they_are_free() -> None:
    """A round costs half as much again if gradients are sent beside models, and takes longer.

    Nothing is sent in the first round. At one local step, every other round sends nothing either,
    because its batch was used twice. By hand: 5200 bytes of models and 2600 of a gradient.
    """
    steady = {"jitter": 0.0, "comm_jitter": 0.0, "latency": [0.2] * 5, "bandwidth": 1e4}
    model, gradient = 8 * 650 / 1e4, 4 * 650 / 1e4
    for free in (False, True):
        trained = training(
            "dynamite-static-tau",
            local_steps=1,
            free_probes=free,
            devices=steady,
            limits={"deadline": 40.0},
        )
        progress, before = begin(trained), Ledger()
        for k in range(1, 7):
            progress, played = run_round(trained, progress)
            sent = 0.0 if free else float(k % 2 == 0)
            outcome, report = played.outcome, played.outcome.report
            assert report.probe is not None
            assert np.isfinite(report.probe.loss).all() == (k > 1 if free else bool(sent))
            assert played.plan.local_steps == 1
            paid = progress.ledger.cost - before.cost - 0.002 * outcome.samples
            assert paid == pytest.approx(0.5 * (1 + 0.5 * sent))
            assert report.comm_seconds == pytest.approx(0.2 + model + gradient * sent)
            assert outcome.sent_bytes == pytest.approx(5 * 1e4 * (model + gradient * sent))
            if free:  # nor does computing for a probe: the round is what the plan says
                assert outcome.samples == played.plan.batch_sizes.sum()
                assert outcome.seconds == pytest.approx(played.plan.seconds / played.plan.rounds)
            before = progress.ledger


def test_probing_now_and_then() -> None:
    trained = training("dynamite", probe_every=3)
    probed = [r.outcome.report.probe is not None for _, r in rounds(trained, begin(trained)) if r]
    assert [index + 1 for index, due in enumerate(probed) if due] == [3, 6]


def test_evaluating_now_and_then_and_at_the_end() -> None:
    trained = training("fedavg", evaluate_every=3, limits={"deadline": 99.0})
    played = [r for _, r in rounds(trained, begin(trained)) if r is not None]
    due = [r.ledger.rounds for r in played if r.evaluation is not None]
    assert len(played) == 8
    assert due == [3, 6, 8]


def test_samples_that_are_not_finite_end_the_training() -> None:
    """One client's data hold a NaN, which the checks of a task have not seen."""
    inputs, labels = digits().train.batch(np.arange(len(digits().train)))
    trained = training("fedavg", task=replace(digits(), train_data=(inputs, labels)))
    engine: Any = trained.engine
    inputs[engine.partition.indices(2).copy()] = math.nan  # after the checks of Task
    with pytest.raises(InvalidInput, match="a sample of client 2, has NaN or infinity"):
        run_round(trained, begin(trained))


def test_nobody_there_costs_time_but_changes_nothing() -> None:
    trained = training("fedavg", devices={"availability": 1e-9})
    start = begin(trained)
    progress, played = run_round(trained, start)
    assert played is not None
    assert torch.equal(progress.weights, start.weights)
    assert progress.ledger.seconds > 0


def test_who_is_later_than_the_deadline_is_absent() -> None:
    trained = training("fedavg", devices={"jitter": 0.0, "comm_jitter": 0.0})
    start = begin(trained)
    seconds = run_round(trained, start)[0].ledger.seconds
    short = replace(trained, limits=replace(trained.limits, deadline=0.8 * seconds))
    progress, played = run_round(short, start)
    assert played is not None
    assert not played.outcome.report.present.all()
    assert played.outcome.report.present.any()
    assert progress.ledger.seconds == 0.8 * seconds
    assert progress.ended == "deadline"


def test_limits_that_allow_no_round_are_refused_at_the_start() -> None:
    with pytest.raises(Infeasible):
        begin(training("dynamite", limits={"deadline": 0.01}))


@pytest.mark.parametrize("name", ["dynamite", "fedavg"])
def test_a_budget_without_end(name: str) -> None:
    trained = training(name, limits={**LIMITS, "budget": math.inf, "deadline": math.inf})
    progress = begin(trained)
    for latest, _ in rounds(trained, progress):
        progress = latest
    assert progress.ended == "rounds"


@pytest.mark.parametrize(
    "limits",
    [
        {"rounds": 4, "deadline": 99.0},
        {"rounds": None, "deadline": 5.0, "budget": math.inf},
        {"rounds": None, "deadline": math.inf, "budget": 6.0},
    ],
)
def test_the_rate_of_a_round_follows_the_limit_of_which_most_is_spent(
    limits: dict[str, Any],
) -> None:
    trained = training("fedavg", limits=limits, rate=RateSchedule(0.2, "linear", final_rate=0.1))
    progress, rates = begin(trained), []
    while progress.ended is None:
        spent, total = progress.ledger, trained.limits
        shares = [spent.seconds / total.deadline, spent.cost / total.budget]
        shares += [] if total.rounds is None else [spent.rounds / total.rounds]
        progress, played = run_round(trained, progress)
        rates.append(played.outcome.report.learning_rate)
        assert rates[-1] == pytest.approx(0.2 - 0.18 * max(shares))
    assert len(rates) > 2
    assert rates == sorted(rates, reverse=True)


def test_clients_step_at_the_rate_of_the_round() -> None:
    """A warm-up begins with a tenth of the rate; at that rate, a constant one does the same."""
    warm = training("fedavg", rate=RateSchedule(0.2, warmup=0.5))
    slow = training("fedavg", rate=RateSchedule(0.2 * 0.1))
    first, again = (run_round(given, begin(given))[0].weights for given in (warm, slow))
    assert torch.equal(first, again)


def test_a_plan_may_discard_the_round_before_it() -> None:
    again = replace(training("fedavg"), controller=BeginsAgain(FedAvg()))
    start = begin(again)
    first, played = run_round(again, start)
    assert torch.equal(first.weights, start.weights)
    assert played.returned
    assert first.ledger.cost > 0  # what was spent is spent
    assert first.guard.is_judged
    second, played = run_round(again, first)
    assert not torch.equal(second.weights, first.weights)
    assert not played.returned
    assert not second.guard.is_judged
    assert second.guard.recent_loss == first.guard.recent_loss  # the same model is judged once
    assert second.guard.idle_rounds == first.guard.idle_rounds == 0
    third, _ = run_round(again, second)
    assert third.guard.recent_loss != second.guard.recent_loss


def test_the_last_round_is_not_discarded() -> None:
    """The second round, whose plan begins again, is the last one: its model is the result."""
    again = replace(training("fedavg", limits={"rounds": 2}), controller=BeginsAgain(FedAvg()))
    first, _ = run_round(again, begin(again))
    assert first.plan.begins_again
    second, played = run_round(again, first)
    assert second.ended == "rounds"
    assert not played.returned
    assert not torch.equal(second.weights, first.weights)


def test_rates_race_in_the_first_round_if_a_tenth_of_the_limits_pays_for_it() -> None:
    """At 0.1 s of overhead, the 80 steps of a race take 8 s, and eight samples each little more.

    One of the five clients has fewer than 128 samples.
    """
    devices = {"step_overhead": 0.1, "samples_per_second": [1e4] * 5}
    for deadline, racers in ((90.0, 4), (70.0, 0)):
        limits = {"deadline": deadline, "budget": 1e6, "rounds": 9}
        trained = training("dynamite-feedback", devices=devices, limits=limits)
        trained = replace(trained, learning_rate=None)
        progress = begin(trained)
        assert progress.trial == "adopt"
        order = _round_order(trained, progress)
        racing = [order.for_client(place).race for place in range(5)]
        assert sum(racing) == racers
        most = trained.engine.most_samples(order)
        progress, played = run_round(trained, progress)
        assert played.outcome.samples <= most
        assert played.outcome.report.present.all()
        assert np.isfinite(played.outcome.report.race_factors).tolist() == racing
        assert progress.trial != "adopt"
        assert _round_order(trained, progress).racers == []
