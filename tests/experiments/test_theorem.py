"""Theorem 2's plans are kept together with the question that they answer."""

from dataclasses import replace
from pathlib import Path

from dynamite_fl.experiments.runs import ExperimentRuns, ask_theorem, read_outcome
from tests.experiments.smoke import smoke


def asking(runs: ExperimentRuns, **changes: object) -> ExperimentRuns:
    """Return the same runs with another question to Theorem 2."""
    asks = replace(runs.experiment.theorem["smoke"], **changes)  # type: ignore[arg-type]
    return replace(runs, experiment=replace(runs.experiment, theorem={"smoke": asks}))


def test_another_question_is_asked_anew(tmp_path: Path) -> None:
    runs = smoke("optimal-tau", tmp_path)
    ask_theorem(runs, None)
    kept = read_outcome(runs).plans
    assert list(kept["mnist-5"][0]) == [10, 40]
    other = asking(runs, rounds=[20], samples=30)
    assert read_outcome(other).plans == {}
    ask_theorem(other, None)
    assert [list(plan) for plan in read_outcome(other).plans["mnist-5"].values()] == [[20], [20]]
    ask_theorem(runs, None)
    assert read_outcome(runs).plans == kept


def test_another_job_is_asked_anew(tmp_path: Path) -> None:
    runs = smoke("optimal-tau", tmp_path)
    ask_theorem(runs, None)
    job = {**runs.experiment.job, "training": {**runs.experiment.job["training"]}}
    job["training"]["learning_rate"] = 0.02
    other = replace(runs, experiment=replace(runs.experiment, job=job))
    assert read_outcome(runs).plans
    assert read_outcome(other).plans == {}


def test_the_same_question_is_not_asked_twice(tmp_path: Path) -> None:
    runs = smoke("optimal-tau", tmp_path)
    ask_theorem(runs, None)
    file = runs.plan_file("mnist-5", 0)
    before = file.stat().st_mtime_ns
    ask_theorem(runs, None)
    assert file.stat().st_mtime_ns == before
