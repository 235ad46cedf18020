"""Theorem 2's answers are kept with what was asked."""

import json
from dataclasses import replace
from pathlib import Path

from dynamite_fl.experiments.runs import Plays, gather
from tests.experiments.plays import smoke


def asking(plays: Plays, **changes: object) -> Plays:
    """The same, but for what Theorem 2 is asked."""
    asks = replace(plays.experiment.theorem["smoke"], **changes)  # type: ignore[arg-type]
    return replace(plays, experiment=replace(plays.experiment, theorem={"smoke": asks}))


def test_another_question_is_asked_anew(tmp_path: Path) -> None:
    plays = smoke("optimal-tau", tmp_path)
    plays.ask_theorem(None)
    kept = gather(plays).found.plans
    assert list(kept["mnist-5"][0]) == [10, 40]
    other = asking(plays, rounds=[20], samples=30)
    assert gather(other).found.plans == {}
    other.ask_theorem(None)
    assert [list(plan) for plan in gather(other).found.plans["mnist-5"].values()] == [[20], [20]]
    plays.ask_theorem(None)
    assert gather(plays).found.plans == kept


def test_another_job_is_asked_anew(tmp_path: Path) -> None:
    plays = smoke("optimal-tau", tmp_path)
    plays.ask_theorem(None)
    job = {**plays.experiment.job, "training": {**plays.experiment.job["training"]}}
    job["training"]["learning_rate"] = 0.02
    other = replace(plays, experiment=replace(plays.experiment, job=job))
    assert gather(plays).found.plans
    assert gather(other).found.plans == {}


def test_the_same_question_is_not_asked_twice(tmp_path: Path) -> None:
    plays = smoke("optimal-tau", tmp_path)
    plays.ask_theorem(None)
    file = plays.plan_file("mnist-5", 0)
    before = file.stat().st_mtime_ns
    plays.ask_theorem(None)
    assert file.stat().st_mtime_ns == before


def test_an_answer_without_its_question_is_shown_but_asked_anew(tmp_path: Path) -> None:
    plays = smoke("optimal-tau", tmp_path)
    file = plays.plan_file("mnist-5", 0)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"10": [59, 1], "40": [58, 1]}))
    assert gather(plays).found.plans == {"mnist-5": {0: {10: (59, 1), 40: (58, 1)}}}
    plays.ask_theorem(None)
    assert gather(plays).found.plans["mnist-5"][0][10] != (59, 1)
