"""The accuracy of the controller ``dynamite-feedback`` without each of its parts, on equal jobs.

    python benchmarks/ablation.py --data-dir DATA [--seeds 3] [--jobs 2] [--only perceptron]
        [--variants "all of it" "batches of 8"]

It prints a Markdown table of test accuracies: mean and standard deviation over seeds.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import PropertyMock, patch

import numpy as np
import torch

from cases import Case
from dynamite_fl.control import feedback
from dynamite_fl.control.estimate import gain, speed
from dynamite_fl.control.estimate.gain import GainEstimate
from dynamite_fl.control.feedback import Feedback, FeedbackState
from dynamite_fl.control.fitting import constant_plan, largest_batch
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import load_training_job
from dynamite_fl.records import Fleet, FloatArray, Limits, Plan
from dynamite_fl.reports import PathReport
from dynamite_fl.training.server_optimizer import Average, Extrapolation
from dynamite_fl.training.session import Session

CASES = [
    Case("softmax"),
    Case("softmax", "by label", "time"),
    Case("softmax", "by label", "time", rate=0.03),
    Case("svm", "by label"),
    Case("perceptron", bound="time"),
    Case("perceptron", "by label"),
    Case("softmax", "all for all", "time", rounds=120, stream="smooth-c"),
    Case("perceptron", bound="time", overhead=0.0, stragglers=1),
    Case("perceptron", bound="time", overhead=0.0, stragglers=10),
]


def compare_with_last_round(
    before: GainEstimate, path: PathReport, local_steps: int, rate: float
) -> GainEstimate:
    """Update the gain by a comparison that includes the last round."""
    with_last = replace(gain._include_last_round(before), last_way=0.0)
    return gain.update_gain(with_last, path, local_steps, rate)


def unlimited_steps(*_: object) -> int:
    """Return more local steps than any round has, so that the last rounds are not shorter."""
    return 10**6


def without_noise(variance: FloatArray, *_: object) -> FloatArray:
    """Return a tiny variance for all clients, so that noise costs almost nothing."""
    return np.full_like(variance, 1e-12)


def grow_from_mean(
    before: GainEstimate, path: PathReport, local_steps: int, rate: float
) -> GainEstimate:
    """Update the gain so that ways at most double their mean."""
    after = gain.update_gain(before, path, local_steps, rate)
    return replace(after, newest_way=after.mean_way)


def keep_rate(_: Feedback, state: FeedbackState, *_rounds: int) -> list[float]:
    """Return the learning rate that clients found in the first round."""
    return [state.learning_rate]


best = Feedback._best


def one_size(
    self: Feedback, fleet: Fleet, limits: Limits, rounds: int, state: FeedbackState, rate: float
) -> Plan:
    """Plan the same batch size for all clients, the largest that fits."""
    plan = best(self, fleet, limits, rounds, state, rate)
    size = largest_batch(fleet, limits, plan.rounds, plan.local_steps)
    limits = replace(limits, rounds=plan.rounds)
    shared = constant_plan(fleet, limits, plan.local_steps, max(size, 1))
    return replace(shared, bound=plan.bound, learning_rate=rate)


def same_steps(
    self: Feedback, fleet: Fleet, limits: Limits, rounds: int, state: FeedbackState, rate: float
) -> Plan:
    """Plan 16 local steps in every round, with the best batch sizes."""
    least = patch.object(feedback, "_LEAST_STEPS", 16)
    with least, patch.object(feedback, "_most_steps_before_end", lambda *_: 16):
        return best(self, fleet, limits, rounds, state, rate)


def same_batch(
    self: Feedback, fleet: Fleet, limits: Limits, rounds: int, state: FeedbackState, rate: float
) -> Plan:
    """Plan batches of 8 samples, with as many steps and rounds as then fit."""
    plan = best(self, fleet, limits, rounds, state, rate)
    limits = replace(limits, rounds=plan.rounds)
    steps = plan.local_steps
    while steps > 1 and largest_batch(fleet, limits, plan.rounds, steps) < 8:
        steps -= 1
    shared = constant_plan(fleet, limits, steps, 8)
    return replace(shared, bound=plan.bound, learning_rate=rate)


VARIANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "all of it": nullcontext,
    "the first rate stays": lambda: patch.object(Feedback, "_rates", keep_rate),
    "the largest stable rate": lambda: patch.object(feedback, "_RATE_SHARES", (1.0,)),
    "16 steps in every round": lambda: patch.object(Feedback, "_best", same_steps),
    "batches of 8": lambda: patch.object(Feedback, "_best", same_batch),
    "a short first round": lambda: patch.object(feedback, "long_first_plan", lambda *_: None),
    "second halves ignored": lambda: patch.object(GainEstimate, "persistence", 1.0),
    "gain falls linearly": lambda: patch.object(gain, "_POWER", 1),
    "gain falls by the fifth power": lambda: patch.object(gain, "_POWER", 5),
    "last round compared too": lambda: patch.object(
        feedback, "update_gain", compare_with_last_round
    ),
    "no standard error": lambda: patch.object(
        GainEstimate, "standard_error", PropertyMock(return_value=0.0)
    ),
    "one step at least": lambda: patch.object(feedback, "_LEAST_STEPS", 1),
    "steps may grow at once": lambda: patch.object(feedback, "_MOST_GROWTH", 1e6),
    "steps double their mean": lambda: patch.object(feedback, "update_gain", grow_from_mean),
    "last rounds as long": lambda: patch.object(
        feedback, "_most_steps_before_end", unlimited_steps
    ),
    "all rounds played": lambda: patch.object(feedback, "_data_streams", lambda *_: True),
    "noise costs nothing": lambda: patch.object(feedback, "_update_variance", without_noise),
    "guess of speeds ignored": lambda: patch.object(speed, "_GUESS_ERROR", 1e3),
    "server averages": lambda: patch.object(Extrapolation, "step", Average.step),
    "one batch size for all": lambda: patch.object(Feedback, "_best", one_size),
}


def accuracy(case: Case, variant: str, seed: int, data_dir: Path) -> float:
    """Return the test accuracy at the end, in per cent."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, VARIANTS[variant]():
        file = Path(folder) / "job.toml"
        file.write_text(case.job)
        training = build_training(load_training_job(file, [f"training.seed={seed}"]), data_dir)
        return 100 * Session(training).run().history.final


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[], help="words that a case must have, all")
    parser.add_argument("--variants", nargs="+", default=[*VARIANTS], choices=VARIANTS)
    arguments = parser.parse_args()
    cases = [case for case in CASES if all(word in case.name for word in arguments.only)]
    print(f"| without | {' | '.join(' '.join(case.cells) for case in cases)} |")
    print("|---" * (1 + len(cases)) + "|")
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        jobs = {
            key: pool.submit(accuracy, *key, arguments.data_dir)
            for key in product(cases, arguments.variants, range(arguments.seeds))
        }
        for variant in arguments.variants:
            cells = []
            for case in cases:
                results = [jobs[case, variant, seed].result() for seed in range(arguments.seeds)]
                spread = f" ± {statistics.stdev(results):.1f}" if len(results) > 1 else ""
                cells.append(f"{statistics.fmean(results):.1f}{spread}")
            print(f"| {variant} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
