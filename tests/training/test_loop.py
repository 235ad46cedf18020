import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl import Infeasible
from dynamite_fl.errors import Diverged
from dynamite_fl.training.loop import begin, rounds, run_round
from tests.examples import examples
from tests.trainings import LIMITS, digits, training


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


def test_probes_are_charged_unless_they_are_free() -> None:
    """The second round sends a gradient beside the model, half as much again."""
    for free in (False, True):
        trained = training("dynamite", free_probes=free)
        progress, _ = run_round(trained, begin(trained))
        before = progress.ledger
        progress, played = run_round(trained, progress)
        assert played is not None
        assert played.outcome.report.probe is not None
        paid = progress.ledger.cost - before.cost - 0.002 * played.outcome.samples
        assert paid == pytest.approx(0.5 * (1 + (0 if free else 0.5)))


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


def test_an_update_that_is_not_finite_is_refused() -> None:
    """One client's data hold a NaN: what it sends is counted, and the others are averaged."""
    task = replace(digits(), train_inputs=digits().train_inputs.clone())
    trained = training("fedavg", task=task)
    engine: Any = trained.engine
    task.train_inputs[engine.partition.indices(2).copy()] = math.nan  # after the checks of Task
    progress, played = run_round(trained, begin(trained))
    assert played is not None
    assert played.refused == 1
    assert torch.isfinite(progress.weights).all()
    assert not torch.equal(progress.weights, begin(trained).weights)


def test_a_training_that_leaves_all_numbers_ends() -> None:
    trained = training("fedavg", model="perceptron")
    engine: Any = trained.engine
    engine.learning_rate = 1e30
    with pytest.raises(Diverged, match=r"in round \d+ all 5 updates .* smaller training.learning"):
        list(rounds(trained, begin(trained)))


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
