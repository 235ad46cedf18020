"""The seconds of a round of CIFAR-10: a plain loop, pfl-research, Flower's simulation and ours.

    python benchmarks/peers.py --data-dir DATA [--peers-python PYTHON] [--rounds 10]

``contenders/rounds.py`` has the set-up. Every contender runs in a process of its own with one torch
thread per process. A round of each is measured in turn; meanwhile the other contenders are stopped.
A round ends when the new global model is there; nothing is evaluated in it.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import numpy as np

from contenders.rounds import Data
from dynamite_fl.task.datasets.load import load_dataset

TEST_SAMPLES = 1000


class Contender:
    """A process that runs a round whenever it is asked to, and is stopped otherwise."""

    def __init__(self, name: str, words: Sequence[str], folder: Path) -> None:
        self.name = name
        self.seconds: list[float] = []
        self._log = folder / f"{name}.log"
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(folder / "flwr"),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603
                words,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,  # if the benchmark is killed, the system ends a stopped group
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with all processes that it has started
        self._process.communicate()

    def run_round(self) -> float:
        """Run a round, and return its seconds."""
        return self._ask("round")

    def accuracy(self) -> float:
        """Return the test accuracy of the global model."""
        return self._ask("accuracy")

    def _ask(self, question: str) -> float:
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None  # noqa: S101  both are pipes
        assert answers is not None  # noqa: S101
        self._process.send_signal(signal.SIGCONT)
        with suppress(BrokenPipeError):
            pipe.write(f"{question}\n")
            pipe.flush()
        answer = answers.readline()
        if not answer:
            raise SystemExit(f"{self.name} has ended:\n{self._log.read_text()[-3000:]}")
        self._process.send_signal(signal.SIGSTOP)
        return float(answer)


def commands(peers_python: str | None, folder: Path) -> dict[str, list[str]]:
    """Return the command of each contender, by name."""

    def command(python: str, module: str, *more: str) -> list[str]:
        return [
            python,
            "-c",
            f"from contenders import {module}; {module}.main()",
            str(folder),
            *more,
        ]

    found = {"plain loop": command(sys.executable, "plain")}
    if peers_python is not None:
        found["pfl-research"] = command(peers_python, "pfl_research")
        found["Flower's simulation"] = command(peers_python, "flower_simulation")
    found["ours, one worker"] = command(sys.executable, "ours", "1")
    found["ours, two workers"] = command(sys.executable, "ours", "2")
    return found


def save_data(data_dir: str | None, folder: Path) -> None:
    """Write CIFAR-10 for the contenders, of which peers cannot read our datasets."""
    cifar = load_dataset("cifar10", data_dir)
    tests = slice(TEST_SAMPLES)
    Data(
        cifar.train_inputs, cifar.train_labels, cifar.test_inputs[tests], cifar.test_labels[tests]
    ).save(folder)


def print_table(contenders: Sequence[Contender]) -> None:
    """Print the seconds of a round, and the speed compared with the first contender."""
    plain = np.array(contenders[0].seconds)
    print("\n| | seconds a round (middle half) | times as fast as the plain loop | accuracy |")
    print("|---|---|---|---|")
    for contender in contenders:
        seconds = np.array(contender.seconds)
        low, median, high = np.quantile(seconds, [0.25, 0.5, 0.75])
        slow, ratio, fast = np.quantile(plain / seconds, [0.25, 0.5, 0.75])
        print(
            f"| {contender.name} | {median:.2f} ({low:.2f}-{high:.2f}) "
            f"| {ratio:.2f} ({slow:.2f}-{fast:.2f}) | {contender.accuracy():.1%} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data-dir", help="the folder with CIFAR-10; default: $DYNAMITE_DATA")
    parser.add_argument("--peers-python", help="a Python that has pfl and flwr[simulation]")
    parser.add_argument("--rounds", type=int, default=10, help="measured rounds of each contender")
    parser.add_argument("--warm-up", type=int, default=2, help="rounds before them")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # end the contenders, too
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as running:
        folder = Path(name)
        save_data(arguments.data_dir, folder)
        contenders = [
            running.enter_context(Contender(name, words, folder))
            for name, words in commands(arguments.peers_python, folder).items()
        ]
        for contender in contenders:
            for _ in range(arguments.warm_up):
                contender.run_round()
        for number in range(arguments.rounds):
            for contender in contenders:
                contender.seconds.append(contender.run_round())
            times = ", ".join(f"{each.name} {each.seconds[-1]:.2f} s" for each in contenders)
            print(f"{number + 1}: {times}; load {os.getloadavg()[0]:.1f}", flush=True)
        print_table(contenders)


if __name__ == "__main__":
    main()
