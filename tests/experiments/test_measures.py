"""Measures of a run, against numbers worked by hand."""

import pytest

from dynamite_fl.experiments.measures import MEASURES, Setting, burst_round
from dynamite_fl.report.history import History
from tests.experiments.histories import history


def measure(name: str, of: History, setting: Setting | None = None) -> float | None:
    return MEASURES[name].of(of, setting or Setting(), None)


def test_ends() -> None:
    run = history([0.2, 0.4, 0.3], worst=0.1)
    assert measure("accuracy", run) == 0.3
    assert measure("worst_class", run) == 0.1
    assert (measure("rounds", run), measure("seconds", run), measure("cost", run)) == (3, 6, 30)


def test_forgotten_classes_were_known_once() -> None:
    """Of four classes one is kept, one lost, one was never known, one is nearly lost."""
    run = history([0.3, 0.2])
    run.lines[0]["class_accuracy"] = {"a": 0.5, "b": 0.2, "c": 0.19, "d": 0.9}
    run.lines[1]["class_accuracy"] = {"a": 0.6, "b": 0.01, "c": 0.0, "d": 0.02}
    assert measure("forgotten", run) == 0.25
    for line in run.lines:
        del line["class_accuracy"]
    assert measure("forgotten", run) is None


def test_accuracy_at_a_round_is_that_of_the_last_evaluation_up_to_it() -> None:
    run = history([0.2, 0.4, 0.3])
    run.lines[1]["accuracy"] = None
    accuracy = MEASURES["accuracy"].of
    assert [accuracy(run, Setting(), k) for k in (1, 2, 3, 4)] == [0.2, 0.2, 0.3, None]


def test_to_the_target() -> None:
    run = history([0.2, 0.4, 0.3])
    assert measure("seconds_to_target", run, Setting(target=0.35)) == 4.0
    assert measure("cost_to_target", run, Setting(target=0.9)) == 30.0  # all, at least
    assert measure("cost_to_target", run) is None


def test_loss_after_the_burst_and_its_roughness() -> None:
    """From round 2 on 4, 1, 3: mean 8/3. Rises without the burst's own: 0 and 2."""
    run = history([0.1] * 4, stream_loss=[1.0, 4.0, 1.0, 3.0])
    assert measure("loss_after_burst", run, Setting(burst=2)) == pytest.approx(8 / 3)
    assert measure("roughness", run, Setting(burst=2)) == 1.0
    assert measure("roughness", run) == pytest.approx(5 / 3)
    assert measure("loss_after_burst", run) is None
    assert measure("roughness", history([0.1, 0.2])) is None


def test_change_and_unrest_of_local_steps() -> None:
    """Nine rounds: the first third less its opening is round 3, the last is rounds 7 to 9."""
    run = history([0.1] * 9, steps=[1, 1, 8, 6, 6, 6, 4, 5, 3])
    assert measure("steps_change", run) == -4.0
    assert measure("steps_unrest", run) == pytest.approx((2 + 2 + 1 + 2) / 6 / (38 / 7))
    assert measure("steps_unrest", history([0.1] * 3)) is None


def test_local_steps_at_the_burst() -> None:
    """Before: 2, 4. The burst is in round 3, known after it. Then 6, 8."""
    run = history([0.1] * 5, steps=[2, 4, 9, 6, 8])
    assert measure("steps_at_burst", run, Setting(burst=3)) == 4.0
    assert measure("steps_at_burst", run) is None


def test_burst_round() -> None:
    task = {"model": "softmax", "dataset": "digits"}
    assert burst_round({"task": task}) is None
    assert burst_round({"task": task, "stream": {"preset": "smooth-c"}}) is None
    assert burst_round({"task": task, "stream": {"preset": "burst", "scale": 0.5}}) == 250
    assert burst_round({"task": task, "stream": {"preset": "burst", "at": 7}}) == 7
    cifar = {"model": "cnn", "dataset": "cifar10"}
    assert burst_round({"task": cifar, "stream": {"preset": "burst"}}) == 1000
