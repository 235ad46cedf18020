"""What each part of the feedback buys: it is run without that part, on the same jobs.

    python benchmarks/ablation.py --data-dir DATA [--seeds 3] [--jobs 2]

It prints a table of test accuracies in Markdown: mean and standard deviation over seeds.
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
from dynamite_fl.control import course, feedback, system
from dynamite_fl.control.course import Course
from dynamite_fl.control.feedback import Feedback, FeedbackState
from dynamite_fl.control.rounds import largest_batch, repeated
from dynamite_fl.engine.run import run
from dynamite_fl.records import Fleet, FloatArray, Limits, Plan
from dynamite_fl.reports import PathReport
from dynamite_fl.run_config import load_training_job, make_training

CASES = [
    Case("softmax"),
    Case("softmax", "by label", "time"),
    Case("softmax", "by label", "time", rate=0.03),
    Case("svm", "by label"),
    Case("perceptron", bound="time"),
    Case("perceptron", "by label"),
    Case("softmax", "all for all", "time", rounds=120, stream="smooth-c"),
]


def with_the_last(before: Course, path: PathReport, local_steps: int, rate: float) -> Course:
    """Heads are compared with the last round too."""
    return course.follow(replace(course._with_last(before), last_steps=0), path, local_steps, rate)


def as_long(*_: object) -> int:
    """Local steps that no round has, so that none is shorter for being among the last."""
    return 10**6


def without_price(variance: FloatArray, *_: object) -> FloatArray:
    """Noise costs next to nothing, of all clients alike."""
    return np.full_like(variance, 1e-12)


def by_the_mean(before: Course, path: PathReport, local_steps: int, rate: float) -> Course:
    """Local steps at most double their mean."""
    after = course.follow(before, path, local_steps, rate)
    return replace(after, newest_steps=after.local_steps)


best = Feedback._best


def one_size(self: Feedback, fleet: Fleet, limits: Limits, rounds: int, seen: Course) -> Plan:
    """All devices have the same batch size: the largest that fits."""
    plan = best(self, fleet, limits, rounds, seen)
    size = largest_batch(fleet, limits, plan.rounds, plan.local_steps)
    shared = repeated(fleet, replace(limits, rounds=plan.rounds), plan.local_steps, max(size, 1))
    return replace(shared, bound=plan.bound)


VARIANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "all of it": nullcontext,
    "tails not looked at": lambda: patch.object(Course, "persistence", 1.0),
    "gain falls by a line": lambda: patch.object(course, "_POWER", 1),
    "gain falls by the fifth power": lambda: patch.object(course, "_POWER", 5),
    "last round compared too": lambda: patch.object(feedback, "follow", with_the_last),
    "no standard error": lambda: patch.object(Course, "error", PropertyMock(return_value=0.0)),
    "one step at least": lambda: patch.object(feedback, "_FEWEST_STEPS", 1),
    "steps may grow at once": lambda: patch.object(feedback, "_LONGEST_STEP", 1e6),
    "steps double their mean": lambda: patch.object(feedback, "follow", by_the_mean),
    "last rounds as long": lambda: patch.object(feedback, "_most_before_the_end", as_long),
    "all rounds played": lambda: patch.object(FeedbackState, "data_streams", True),
    "noise costs nothing": lambda: patch.object(feedback, "_varied", without_price),
    "guess of speeds forgotten": lambda: patch.object(system, "_DOUBT", 1e3),
    "one batch size for all": lambda: patch.object(Feedback, "_best", one_size),
}


def accuracy(case: Case, variant: str, seed: int, data_dir: Path) -> float:
    """Test accuracy at the end, in per cent."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, VARIANTS[variant]():
        file = Path(folder) / "job.toml"
        file.write_text(case.job)
        training = make_training(load_training_job(file, [f"training.seed={seed}"]), data_dir)
        lines = [line for _, line in run(training, None) if line is not None]
        return 100 * float([line["accuracy"] for line in lines if line["accuracy"] is not None][-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    print(f"| without | {' | '.join(' '.join(case.cells) for case in CASES)} |")
    print("|---" * (1 + len(CASES)) + "|")
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        asked = {
            key: pool.submit(accuracy, *key, arguments.data_dir)
            for key in product(CASES, VARIANTS, range(arguments.seeds))
        }
        for variant in VARIANTS:
            cells = []
            for case in CASES:
                found = [asked[case, variant, seed].result() for seed in range(arguments.seeds)]
                spread = f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""
                cells.append(f"{statistics.fmean(found):.1f}{spread}")
            print(f"| {variant} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
