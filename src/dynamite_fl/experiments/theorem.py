"""What Theorem 2 says of a job: local steps and batch size for each number of rounds."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dynamite_fl.engine.pilot import pilot
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.experiments.experiment import Theorem
from dynamite_fl.files import write_atomically
from dynamite_fl.plan.uniform import uniform_plan
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.run_config import TrainingJob, make_training

Plan = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Question:
    """What Theorem 2 is asked.

    Attributes:
        job: Of which job.
        theorem: For which rounds and samples.
    """

    job: TrainingJob
    theorem: Theorem

    def to_json(self) -> dict[str, Any]:
        """All that the answer depends on, as it comes back from a file."""
        asks = {"job": self.job.tables, "theorem": asdict(self.theorem)}
        found: dict[str, Any] = json.loads(json.dumps(asks))
        return found


def asked(question: Question, data_dir: Path | None) -> Plan:
    """Local steps and batch size by rounds, with the loss's constants from a pilot run.

    The limits are those that pay for ``theorem.samples`` of each client in each round, and
    nothing else binds.
    """
    job, theorem = question.job, question.theorem
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


def save(path: Path, question: Question, plan: Plan) -> None:
    """Write the answer beside the run folders, with what was asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"question": question.to_json(), "plan": plan}) + "\n")


def is_answered(path: Path, question: Question) -> bool:
    """Whether the file answers this very question."""
    return path.is_file() and _read(path).get("question") == question.to_json()


def load(path: Path, question: Question) -> Plan:
    """What ``save`` wrote; nothing if there is no such file, or it answers another question."""
    if not path.is_file():
        return {}
    read, asks = _read(path), question.to_json()
    if read.get("question", asks) != asks:
        return {}
    plan = read.get("plan", read)  # alone, in files from before questions were kept
    return {int(rounds): (steps, size) for rounds, (steps, size) in plan.items()}


def _read(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read
