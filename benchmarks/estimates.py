"""Which of the estimates of the paper's rule decides its local steps.

    python benchmarks/estimates.py --data-dir DATA [--rounds 30] [--case 4] [--out FILE]

It trains the paper's CNN on CIFAR-10 with the paper's rule, in the setting of the paper's figure
with 20 clients. The paper does not say which of Wang's cases its data is; the experiments use case
2, and ``--case`` another one. After every round it plans again with one of the estimates replaced,
and prints the local steps that the rule would choose. With ``--out``, each line is also appended to
a file, so that a long run shows what it has found.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dynamite_fl.control.estimate.loss import (
    LossEstimates,
    known_means,
    loss_geometry,
    with_measured_variance,
)
from dynamite_fl.control.estimate.speed import estimated_fleet
from dynamite_fl.experiments.experiment import load_experiment
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.plan.bounds import marginal_bound
from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.plan.feasibility import fit_rounds
from dynamite_fl.records import Fleet, FloatArray, LossGeometry
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.threads import one_thread
from dynamite_fl.training.training import Training

# A replacement changes the geometry and the gradient variances.
Replacement = Callable[[LossGeometry, FloatArray], tuple[LossGeometry, FloatArray]]


def replacements(loss: LossEstimates, first_variance: FloatArray) -> dict[str, Replacement]:
    """Return what is planned with, by name.

    Args:
        loss: The estimates after a round.
        first_variance: The gradient variances that were measured before training.
    """
    global_pl = global_pl_constant(loss)
    return {
        "as measured": lambda geometry, variance: (geometry, variance),
        "M_i of the first round": lambda geometry, _: (geometry, first_variance),
        "M_i = 0": lambda geometry, variance: (geometry, 0 * variance),
        "rho = 0": lambda geometry, variance: (replace(geometry, quadratic_bound=0.0), variance),
        "delta = 0": lambda geometry, variance: (replace(geometry, divergence=0.0), variance),
        "a tenth of beta": lambda geometry, variance: (
            replace(geometry, smoothness=geometry.smoothness / 10),
            variance,
        ),
        "c of the global gradient": lambda geometry, variance: (
            replace(geometry, pl_constant=global_pl),
            variance,
        ),
        "that c and rho = 0": lambda geometry, variance: (
            replace(geometry, pl_constant=global_pl, quadratic_bound=0.0),
            variance,
        ),
    }


def global_pl_constant(loss: LossEstimates) -> float:
    """Return |g|^2 / 2F of the mean gradient g, where |g|^2 = mean |g_i|^2 - mean |g_i - g|^2.

    The clients' own gradients give |g_i|^2 = 2 c_i F_i. All clients have equally much data here.
    """
    latest = loss.latest
    squares = float(np.mean(2 * latest.pl_constant * latest.loss) - np.mean(latest.divergence**2))
    return max(squares, 0.0) / (2 * float(np.mean(latest.loss)))


def studied(training: Training, rate: float) -> Iterator[dict[str, Any]]:
    """Yield what each round shows: its estimates, and the local steps by replacement."""
    first: FloatArray | None = None
    for progress, played in rounds(training, begin(training)):
        loss = progress.control.loss
        if first is None:
            first = loss.latest.gradient_variance
        means = known_means(loss)
        geometry = loss_geometry(means, rate)
        remaining = progress.ledger.remaining(training.limits)
        if geometry is None or remaining is None:
            continue
        fleet = _fleet(training, progress)
        limits = fit_rounds(fleet, remaining)
        steps = {}
        for name, replacement in replacements(loss, first).items():
            replaced, variance = replacement(geometry, fleet.gradient_variance)
            changed = fleet.with_columns(gradient_variance=variance)
            steps[name] = cooptimize(changed, limits, replaced, marginal_bound).local_steps
        yield {
            "round": progress.ledger.rounds,
            "local_steps": played.plan.local_steps,
            "batch_mean": float(played.plan.batch_sizes.mean()),
            "rate_times_c": rate * geometry.pl_constant,
            "rate_times_global_c": rate * global_pl_constant(loss),
            **means,
            "steps": steps,
        }


def _fleet(training: Training, progress: Progress) -> Fleet:
    fleet = estimated_fleet(training.fleet, progress.speeds, progress.samples)
    return with_measured_variance(fleet, progress.control.loss)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--panel", choices=("cost", "time"), default="cost")
    parser.add_argument("--case", type=int, choices=(1, 2, 3, 4), default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    job = load_experiment("online-accuracy").job_of("paper", arguments.panel, "dynamite", 0)
    tables = {**job.tables, "partition": {"kind": "wang", "case": arguments.case}}
    training = build_training(TrainingJob(tables), arguments.data_dir)
    rate = float(job.tables["training"]["learning_rate"])
    with one_thread():
        for found in islice(studied(training, rate), arguments.rounds):
            line = json.dumps(found)
            print(line, flush=True)
            if arguments.out is not None:
                with arguments.out.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
