"""Measures of a run, against numbers worked by hand."""

import pytest

from dynamite_fl.experiments.measures import (
    MEASURES,
    burst_round,
    column,
    first_rounds,
    known,
    measure,
)
from tests.experiments.histories import history


def test_measures_at_the_end_of_a_run() -> None:
    values = measure(history([0.2, 0.4, 0.3], worst=0.1))
    assert (values["accuracy"], values["worst_class"]) == (0.3, 0.1)
    assert (values["rounds"], values["seconds"], values["cost"]) == (3, 6, 30)


def test_every_measure_has_a_title() -> None:
    run = history([0.1] * 9, steps=[1] * 9, stream_loss=[1.0] * 9)
    assert set(measure(run, target=0.5, burst=5)) == set(MEASURES)


def test_measures_after_the_first_rounds() -> None:
    """After round 2 the last accuracy is that of round 1; no run has four rounds."""
    run = history([0.2, None, 0.3])
    assert [measure(first_rounds({0: run}, k)[0])["accuracy"] for k in (1, 2, 3)] == [0.2, 0.2, 0.3]
    assert first_rounds({0: run}, 4) == {}


def test_columns() -> None:
    run = history([0.2, None, 0.3])
    assert column(run, "accuracy") == [(1, 0.2), (2, None), (3, 0.3)]
    assert known(run, "accuracy") == {1: 0.2, 3: 0.3}


def test_forgotten_classes_were_known_once() -> None:
    """Of four classes one is kept, one lost, one was never known, one is nearly lost."""
    classes = [
        {"a": 0.5, "b": 0.2, "c": 0.19, "d": 0.9},
        {"a": 0.6, "b": 0.01, "c": 0.0, "d": 0.02},
    ]
    assert measure(history([0.3, 0.2], classes=classes))["forgotten"] == 0.25
    assert "forgotten" not in measure(history([0.3], classes=[{}]))


def test_to_the_target() -> None:
    run = history([0.2, 0.4, 0.3])
    assert measure(run, target=0.35)["seconds_to_target"] == 4.0
    assert measure(run, target=0.9)["cost_to_target"] == 30.0  # all, at least
    assert "cost_to_target" not in measure(run)


def test_loss_after_the_burst_and_its_roughness() -> None:
    """From round 2 on 4, 1, 3: mean 8/3. Rises without the burst's own: 0 and 2."""
    run = history([0.1] * 4, stream_loss=[1.0, 4.0, 1.0, 3.0])
    assert measure(run, burst=2)["loss_after_burst"] == pytest.approx(8 / 3)
    assert measure(run, burst=2)["roughness"] == 1.0
    assert measure(run)["roughness"] == pytest.approx(5 / 3)
    assert "loss_after_burst" not in measure(run)
    assert "roughness" not in measure(history([0.1, 0.2]))


def test_change_and_fluctuation_of_local_steps() -> None:
    """Nine rounds: the first third less its opening is round 3, the last is rounds 7 to 9."""
    run = measure(history([0.1] * 9, steps=[1, 1, 8, 6, 6, 6, 4, 5, 3]))
    assert run["steps_change"] == -4.0
    assert run["steps_fluctuation"] == pytest.approx((2 + 2 + 1 + 2) / 6 / (38 / 7))
    assert "steps_fluctuation" not in measure(history([0.1] * 3))


def test_local_steps_at_the_burst() -> None:
    """The steps are 2 and 4 before the burst in round 3, and 6 and 8 after it."""
    run = history([0.1] * 5, steps=[2, 4, 9, 6, 8])
    assert measure(run, burst=3)["steps_at_burst"] == 4.0
    assert "steps_at_burst" not in measure(run)


def test_burst_round() -> None:
    task = {"model": "softmax", "dataset": "digits"}
    assert burst_round({"task": task}) is None
    assert burst_round({"task": task, "stream": {"preset": "smooth-c"}}) is None
    assert burst_round({"task": task, "stream": {"preset": "burst", "scale": 0.5}}) == 250
    assert burst_round({"task": task, "stream": {"preset": "burst", "at": 7}}) == 7
    cifar = {"model": "cnn", "dataset": "cifar10"}
    assert burst_round({"task": cifar, "stream": {"preset": "burst"}}) == 1000
