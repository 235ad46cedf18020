import math
from dataclasses import replace

import numpy as np
import pytest

from dynamite_fl import Plan
from dynamite_fl.control.estimate.rate import RateEstimate
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.rate_choice import (
    RateChoice,
    after_round,
    rate_of_round,
    trial_of_round,
)
from dynamite_fl.training.rate_schedule import RateSchedule

GIVEN = RateSchedule(0.05)
KNOWN = RateChoice(estimate=RateEstimate(math.log(0.4)), constant=0.2, trials=9)


def plan(rate: float | None = None) -> Plan:
    return Plan(9, 4, np.array([8, 8]), 1.0, 1.0, 0.0, (), learning_rate=rate)


def report(stable_rate: float = math.nan, ruining_rate: float | None = None) -> RoundReport:
    return RoundReport(
        round_index=1,
        clients=np.arange(2),
        local_steps=4,
        learning_rate=0.1,
        batch_sizes=np.array([8, 8]),
        present=np.array([True, True]),
        samples=np.array([9.0, 9.0]),
        step_seconds=np.ones(2),
        comm_seconds=np.ones(2),
        stable_rates=np.full(2, stable_rate),
        steepness=np.ones(2),
        ruining_rate=ruining_rate,
    )


def test_a_given_rate_comes_first_then_that_of_the_plan() -> None:
    assert rate_of_round(KNOWN, plan(0.3), GIVEN, 0.0) == 0.05
    assert rate_of_round(KNOWN, plan(0.3), None, 0.0) == 0.3
    assert rate_of_round(KNOWN, plan(), None, 0.0) == 0.2


def test_clients_search_at_first_and_check_what_a_plan_chooses() -> None:
    unknown = RateChoice()
    for planned in (plan(), plan(0.3)):
        assert trial_of_round(unknown, planned, None, is_back=False) == "adopt"
    assert trial_of_round(KNOWN, plan(), None, is_back=False) == "none"
    due = RateChoice(KNOWN.estimate, trials=9, steps_since_trial=20)
    assert trial_of_round(due, plan(0.3), None, is_back=False) == "check"
    assert trial_of_round(KNOWN, plan(0.3), None, is_back=False) == "none"


def test_a_rate_that_has_won_a_race_is_not_checked() -> None:
    won = RateChoice(replace(KNOWN.estimate, is_raced=True), trials=9, steps_since_trial=20)
    assert trial_of_round(won, plan(0.3), None, is_back=False) == "none"


def test_at_a_given_rate_clients_search_only_after_it_failed() -> None:
    assert trial_of_round(RateChoice(), plan(), GIVEN, is_back=False) == "none"
    assert trial_of_round(RateChoice(), plan(), GIVEN, is_back=True) == "search"


def test_checks_cost_five_per_cent_of_the_local_steps() -> None:
    choice, trials, steps = KNOWN, 0, 0
    for _ in range(100):
        is_tried = trial_of_round(choice, plan(0.3), None, is_back=False) == "check"
        choice = after_round(choice, report(0.4 if is_tried else math.nan), tried=is_tried)
        trials, steps = trials + is_tried, steps + 4
    assert 0 < trials <= steps / 20  # each computes one gradient more


def test_a_constant_rate_is_found_once_and_lowered_after_a_ruin() -> None:
    choice = after_round(RateChoice(), report(0.8), tried=True)
    assert choice.constant == pytest.approx(0.4)
    assert after_round(choice, report(0.1), tried=True).constant == pytest.approx(0.4)
    ruined = after_round(choice, report(ruining_rate=0.4), tried=False)
    assert ruined.constant == pytest.approx(0.05)  # half of a quarter
    assert ruined.last == 0.1


def test_the_largest_rate_is_remembered() -> None:
    choice = RateChoice()
    for rate in (0.1, 0.7, 0.2):
        choice = after_round(choice, replace(report(), learning_rate=rate), tried=False)
    assert (choice.last, choice.largest) == (0.2, 0.7)
