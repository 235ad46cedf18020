import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dynamite_fl import Fleet, Plan
from dynamite_fl.control.estimate.rate import RateEstimate
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.rate_choice import (
    RateChoice,
    after_round,
    racers,
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


def fleet(clients: int, **columns: Any) -> Fleet:
    """Return clients whose steps on eight samples take 0.1 s, 0.2 s and so on."""
    seconds = np.arange(1, clients + 1) / 10
    known = {"samples": [500] * clients, "samples_per_second": 8 / seconds}
    return Fleet(**{**known, "gradient_variance": 1, "comm_seconds": 0.1, **columns})


def test_the_fastest_third_race_or_five_if_that_is_more() -> None:
    assert racers(fleet(30), math.inf, math.inf) == [*range(10)]
    assert racers(fleet(6), math.inf, math.inf) == [*range(5)]
    assert racers(fleet(2), math.inf, math.inf) == [0, 1]


def test_only_clients_race_for_whom_there_is_time_and_money() -> None:
    """A race has up to 80 steps: the third client takes 24 s. They compute on 640 samples."""
    assert racers(fleet(9), 24.01, math.inf) == [0, 1, 2]
    assert racers(fleet(9), 23.9, math.inf) == []
    assert racers(fleet(9), math.inf, 4 * 640) == [0, 1, 2, 3]
    assert racers(fleet(9), math.inf, 3 * 640 - 1) == []


def test_clients_with_few_samples_do_not_race() -> None:
    """Sixteen steps on eight samples need 128; with a least batch of 16, they need 256."""
    samples = [127, 128, 300, 300, 300]
    assert racers(fleet(5, samples=samples), math.inf, math.inf) == [1, 2, 3, 4]
    large = fleet(5, samples=samples, least_batch=16)
    assert racers(large, math.inf, math.inf) == [2, 3, 4]
