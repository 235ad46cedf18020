"""Outcomes: what is counted, and the target that FedAvg sets."""

import pytest

from dynamite_fl.experiments.outcome import Outcome
from tests.experiments.histories import history, outcome


def test_finished_runs_and_their_seeds() -> None:
    numbers = outcome({"a": {"we": [0.1, 0.3], "b": [0.2]}, "c": {"we": [0.5]}})
    assert (numbers.finished, numbers.seeds) == (4, [0, 1])
    spread = numbers.spread("a", "we", "accuracy")
    assert spread is not None
    assert spread.mean == pytest.approx(0.2)
    assert numbers.spread("a", "nobody", "accuracy") is None


def test_the_target_is_the_mean_of_fedavg() -> None:
    numbers = outcome({"a": {"fedavg": [0.25, 0.25], "we": [0.3, 0.35], "b": [0.9, 0.1]}})
    assert numbers.target("a") == 0.25
    assert numbers.all_reach_target("a", "we")
    assert not numbers.all_reach_target("a", "b")
    assert outcome({"a": {"we": [0.1]}}).target("a") is None


def test_values_after_a_round() -> None:
    numbers = Outcome({"a": {"we": {0: history([0.1, 0.2]), 1: history([0.3])}}})
    assert numbers.values("a", "we", "accuracy") == {0: 0.2, 1: 0.3}
    assert numbers.values("a", "we", "accuracy", at_round=2) == {0: 0.2}
