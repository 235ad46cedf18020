"""Learning rates that the user gives, from far too small to far too large: no failure is silent.

    python benchmarks/given_rates.py --data-dir DATA [--rates 0.001 0.01 0.1 1 10 100]

Five jobs are trained at every rate, by the feedback and by FedAvg. A cell of the table has the test
accuracy in per cent, with "warned" if the training warned of its rate, or "error" if it ended with
an error that names a rate that would do. It prints a table in Markdown.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import torch

from baselines import Measurable
from cases import Case
from drawn import drawn
from dynamite_fl.errors import Diverged
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import load_training_job
from dynamite_fl.records import LearningRateWarning
from dynamite_fl.training.session import Session
from few_rounds import Embedded

RATES = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]
CONTROLLERS = ["dynamite-feedback", "fedavg"]
DRAWN = [4, 16, 17]  # softmax by label, an SVM of shards, a perceptron by label; all on digits


def outcome(job: Path, controller: str, rate: float, data: Path) -> str:
    """Train, and return what a user sees."""
    words = [f"controller={controller}", f"training.learning_rate={rate}", "training.seed=0"]
    training = build_training(load_training_job(job, words), data)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = Session(training).run()
        except Diverged:
            return "error"
    text = f"{100 * result.history.final:.1f}"
    is_warned = any(issubclass(each.category, LearningRateWarning) for each in warned)
    return f"{text} warned" if is_warned else text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    known = drawn(max(DRAWN) + 1)
    jobs: list[Measurable] = [Embedded(150), *(known[number] for number in DRAWN)]
    jobs.append(Case("softmax", bound="time"))
    headings = ["model", "data", "controller", *(f"{rate:g}" for rate in arguments.rates)]
    print(f"| {' | '.join(headings)} |\n{'|---' * len(headings)}|")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.toml"
        for job in jobs:
            file.write_text(job.job)
            for controller in CONTROLLERS:
                cells = [
                    outcome(file, controller, rate, arguments.data_dir) for rate in arguments.rates
                ]
                print(f"| {' | '.join([*job.cells[:2], controller, *cells])} |", flush=True)


if __name__ == "__main__":
    main()
