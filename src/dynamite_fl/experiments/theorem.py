"""The plans that Theorem 2 proposes for a job, one for each number of rounds."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dynamite_fl._atomic import write_atomically
from dynamite_fl.experiments.experiment import TheoremQuestion
from dynamite_fl.experiments.outcome import Plan
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.plan.closed_forms import uniform_plan
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.training.pilot import pilot


def propose(job: TrainingJob, question: TheoremQuestion, data_dir: Path | None) -> Plan:
    """Return local steps and batch size by rounds, with the loss's constants from a pilot run.

    The budget pays for ``question.samples`` of each client in each round, and no other limit
    binds.
    """
    training = build_training(job, data_dir)
    engine, rate = training.engine, job.settings.learning_rate
    measured = pilot(engine, training.limits, rate, question.pilot_rounds)
    fleet = replace(training.fleet, gradient_variance=measured["gradient_variance"])
    plan = {}
    for rounds in question.rounds:
        limits = _limits(question.samples, fleet, training.limits, rounds)
        uniform = uniform_plan(fleet, limits, measured["geometry"])
        plan[rounds] = (uniform.local_steps, int(uniform.batch_sizes[0]))
    return plan


def _limits(samples: int, fleet: Fleet, limits: Limits, rounds: int) -> Limits:
    """Return limits that pay for so many samples of each client in each round."""
    round_cost = limits.cost_per_sample * samples * len(fleet) + limits.cost_per_round
    return replace(
        limits,
        rounds=rounds,
        deadline=float("inf"),
        budget=rounds * round_cost * (1 + 1e-9),  # so that rounding does not take a sample
        max_local_steps=min(limits.max_local_steps, samples),
    )


def save_plan(file: Path, job: TrainingJob, question: TheoremQuestion, plan: Plan) -> None:
    """Write a plan together with all that it depends on."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"question": _question(job, question), "plan": plan})
    write_atomically(file, text + "\n")


def load_plan(file: Path, job: TrainingJob, question: TheoremQuestion) -> Plan | None:
    """Return a saved plan; None if there is none, or if it answers another question."""
    if not file.is_file():
        return None
    saved = json.loads(file.read_text(encoding="utf-8"))
    if saved.get("question") != _question(job, question):
        return None
    return {int(rounds): (steps, size) for rounds, (steps, size) in saved["plan"].items()}


def _question(job: TrainingJob, question: TheoremQuestion) -> Any:
    """Return all that a plan depends on, as it comes back from a file."""
    return json.loads(json.dumps({"job": job.tables, "theorem": asdict(question)}))
