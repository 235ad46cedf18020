"""What Theorem 2 says of a job: local steps and batch size for each number of rounds."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dynamite_fl.engine.pilot import pilot
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.experiments.experiment import Theorem
from dynamite_fl.files import write_atomically
from dynamite_fl.plan.uniform import uniform_plan
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.run_config import TrainingJob, make_training

Plan = Mapping[int, tuple[int, int]]


def asked(job: TrainingJob, theorem: Theorem, data_dir: Path | None) -> Plan:
    """Local steps and batch size by rounds, with the loss's constants from a pilot run.

    The limits are those that pay for ``theorem.samples`` of each client in each round, and
    nothing else binds.
    """
    training = make_training(job, data_dir)
    engine, rate = training.engine, float(job.tables["training"]["learning_rate"])
    if not isinstance(engine, SimulatedEngine):
        raise TypeError("a pilot run is for simulated devices")
    known = pilot(engine, training.limits, rate, theorem.pilot_rounds)
    fleet = replace(training.fleet, gradient_variance=known["gradient_variance"])
    found = {}
    for rounds in theorem.rounds:
        limits = _paying_for(theorem.samples, fleet, training.limits, rounds)
        plan = uniform_plan(fleet, limits, known["geometry"])
        found[rounds] = (plan.local_steps, int(plan.batch_sizes[0]))
    return found


def _paying_for(samples: int, fleet: Fleet, limits: Limits, rounds: int) -> Limits:
    a_round = limits.cost_per_sample * samples * len(fleet) + limits.cost_per_round
    budget = rounds * a_round * (1 + 1e-9)  # so that rounding does not take a sample
    return replace(
        limits,
        rounds=rounds,
        deadline=float("inf"),
        budget=budget,
        max_local_steps=min(limits.max_local_steps, samples),
    )


def save(path: Path, plan: Plan) -> None:
    """Write it beside the run folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({str(k): list(v) for k, v in plan.items()}) + "\n")


def load(path: Path) -> Plan:
    """What ``save`` wrote; nothing if there is no such file."""
    if not path.is_file():
        return {}
    read = json.loads(path.read_text(encoding="utf-8"))
    return {int(rounds): (steps, size) for rounds, (steps, size) in read.items()}
