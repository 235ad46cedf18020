"""The bound's terms from a history, against what the planner worked with."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest

from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import load_training_job
from dynamite_fl.plan.bounds import gradient_noise
from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.report.bound_terms import BIAS, GAP, NOISE, bound_terms
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.session import Session
from tests.training.records import record


@dataclass
class Planned:
    """What ``cooptimize`` was given, and what came out."""

    noise: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)


def test_terms_are_those_that_rounds_were_planned_by(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = Planned()
    plan_all = cooptimize

    def noted(fleet: Any, limits: Any, geometry: Any, objective: Any) -> Any:
        plan = plan_all(fleet, limits, geometry, objective)
        eta, beta, q = geometry.learning_rate, geometry.smoothness, 1 - geometry.decay
        steps = sum(q**step for step in range(plan.local_steps))
        planned.noise.append(float(gradient_noise(fleet, plan.batch_sizes)))
        planned.scales.append(beta * eta**2 / 2 * steps)
        planned.bounds.append(plan.bound)
        return plan

    monkeypatch.setattr("dynamite_fl.control.dynamite.cooptimize", noted)
    job = load_training_job(
        overrides=[
            "controller.name=dynamite",
            "task.model=softmax",
            "limits.rounds=15",
            "limits.max_local_steps=10",
            "training.learning_rate=0.05",
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = list(Session(build_training(job)).run().history)
    terms = bound_terms(History(tuple(records)), job.tables["training"]["learning_rate"])
    known = [k for k, value in enumerate(terms[GAP]) if value is not None]
    assert len(known) >= 12
    assert len(planned.noise) >= len(known)
    for place, k in enumerate(known):
        assert records[k].bound == planned.bounds[place]
        expected = planned.scales[place] * planned.noise[place]
        noise = terms[NOISE][k]
        assert noise == pytest.approx(expected, rel=1e-6, abs=1e-12 * planned.bounds[place])
        total = sum(terms[name][k] or 0.0 for name in (GAP, NOISE, BIAS))
        assert total == pytest.approx(records[k].bound)


def test_other_controllers_have_no_terms() -> None:
    other = RoundRecord(
        round=1,
        seconds=1.0,
        cost=1.0,
        local_steps=1,
        batch_mean=1.0,
        bound=0.3,
        estimates={"gain": 0.1},
    )
    assert bound_terms(History((other, other)), 0.1) == {}


def test_the_terms_follow_the_rate_that_the_round_was_planned_with() -> None:
    """A round is planned with the rate of the round before it."""
    known = {"loss": 8.0, "pl_constant": 1.0, "divergence": 0.0}
    first = record(1, estimates=known, learning_rate=0.5)
    second = record(2, local_steps=2, bound=2.5, estimates=known, learning_rate=0.25)
    third = record(3, local_steps=1, bound=7.0, estimates=known, learning_rate=0.125)
    terms = bound_terms(History((first, second, third)), learning_rate=0.5)
    assert terms[GAP] == [None, 8.0 * 0.5**2, 8.0 * 0.75]
