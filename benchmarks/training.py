"""How fast a round is, beside the loop that one would write by hand. Run by ``make bench``.

Ours is all that ``play`` does: timing, draws, local steps, averaging, the ledger, the controller.
Both are measured in turn, so that what else the machine does hits both alike.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dynamite_fl.client import client
from dynamite_fl.client.path import Tracker
from dynamite_fl.control.controller import Controller, Measure
from dynamite_fl.control.controllers import make_controller
from dynamite_fl.control.fedavg import FedAvg
from dynamite_fl.engine import loop, simulated
from dynamite_fl.engine.devices import Devices
from dynamite_fl.engine.loop import Progress, Schedule, Training, begin, play
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.records import Limits
from dynamite_fl.task import losses, models
from dynamite_fl.task.partition import wang
from dynamite_fl.task.task import Task

RATE = 0.01
IMAGE = (1, 28, 28)
TIGHT = Limits(rounds=200, deadline=200, budget=4000, cost_per_sample=0.01, cost_per_round=1)


def make_task(make_model: Callable[[], nn.Module], samples: int = 60_000) -> Task:
    """Random images: what is learned does not matter here."""
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, *IMAGE, generator=random)
    targets = torch.randint(0, 10, (samples,), generator=random)
    return Task(
        name="random images",
        make_model=make_model,
        loss=losses.cross_entropy,
        correct=losses.largest_is_target,
        train_inputs=inputs,
        train_targets=targets,
        test_inputs=inputs[:1],
        test_targets=targets[:1],
    )


def softmax() -> nn.Module:
    return models.softmax_regression(784, 10)


def cnn() -> nn.Module:
    return models.convolutional_network(IMAGE, 10)


@dataclass(frozen=True)
class Setting:
    """What a round consists of."""

    task: Task
    clients: int
    batch_size: int
    local_steps: int


class Bare:
    """Federated averaging as one writes it: a module, an optimiser, a loop."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.model = setting.task.new_model(seed=0)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.loss = nn.CrossEntropyLoss()
        self.state = {name: value.clone() for name, value in self.model.state_dict().items()}
        labels = setting.task.train_targets.numpy()
        partition = wang(labels, setting.clients, case=1)
        self.indices = [
            torch.from_numpy(partition.indices(client).copy()) for client in range(len(partition))
        ]

    def round(self) -> None:
        """Local steps of all clients, one after the other, and the average of their models."""
        total = sum(len(own) for own in self.indices)
        average = {name: torch.zeros_like(value) for name, value in self.state.items()}
        for own in self.indices:
            self.model.load_state_dict(self.state)
            self._train(own)
            for name, value in self.model.state_dict().items():
                average[name] += value * (len(own) / total)
        self.state = average

    def _train(self, own: Tensor) -> None:
        task = self.setting.task
        for _ in range(self.setting.local_steps):
            batch = own[torch.randint(len(own), (self.setting.batch_size,))]
            self.optimizer.zero_grad()
            outputs = self.model(task.train_inputs[batch])
            self.loss(outputs, task.train_targets[batch]).backward()
            self.optimizer.step()


class Ours:
    """A training that never ends, round by round."""

    def __init__(self, setting: Setting, workers: int, controller: Controller) -> None:
        labels = setting.task.train_targets.numpy()
        self.engine = SimulatedEngine(
            task=setting.task,
            partition=wang(labels, setting.clients, case=1),
            devices=Devices(samples_per_second=np.linspace(500, 1500, setting.clients)),
            learning_rate=RATE,
            workers=workers,
        )
        limits = Limits(
            deadline=1e9, budget=1e9, cost_per_sample=1e-3, cost_per_round=1, rounds=10**6
        )
        schedule = Schedule(evaluate_every=10**9)
        self.training = Training(self.engine, controller, limits, schedule, self.engine.enroll())
        self.progress: Progress = begin(self.training)

    def round(self) -> None:
        """One round, whole."""
        self.progress, _ = play(self.training, self.progress)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(values: list[float]) -> str:
    """The median, and between what the middle half lies."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle * 1e3:8.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f})"


def compare(name: str, setting: Setting, workers: int, repeats: int, target: float) -> None:
    """Rounds of both in turn; the ratio is the median of the ratios of neighbours."""
    fixed = make_controller(
        "fixed",
        learning_rate=RATE,
        local_steps=setting.local_steps,
        batch_size=setting.batch_size,
    )
    bare, ours = Bare(setting), Ours(setting, workers, fixed)
    with ours.engine:
        bare.round()
        ours.round()
        pairs = [(seconds(bare.round), seconds(ours.round)) for _ in range(repeats)]
    ratios = [bare / ours for bare, ours in pairs]
    low, ratio, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    print(
        f"{name}, {setting.clients:>3} clients, batch {setting.batch_size:>2}, "
        f"{setting.local_steps} steps: bare {spread([each for each, _ in pairs])}   "
        f"ours {spread([each for _, each in pairs])}   {ratio:.1f} times ({low:.1f} to {high:.1f}; "
        f"at least {target})",
        flush=True,
    )


@dataclass(frozen=True, kw_only=True)
class Measuring(FedAvg):
    """Given steps and sizes, but clients measure as for another controller."""

    asked: Measure

    @property
    def measures(self) -> Measure:
        """What that one does."""
        return self.asked


class Stopwatch:
    """Seconds that some functions take, while they are watched."""

    def __init__(self) -> None:
        self.total = 0.0

    def watch(self, owner: ModuleType | type, name: str) -> None:
        """From now on, count the time of this function of a module or method of a class."""
        function = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            result = function(*given, **named)
            self.total += time.perf_counter() - start
            return result

        setattr(owner, name, watched)

    def read(self) -> float:
        """Seconds since the last reading."""
        total, self.total = self.total, 0.0
        return total


# What clients and server do for a controller's measurements alone.
MEASURING: dict[str, list[tuple[ModuleType | type, str]]] = {
    "dynamite": [(client, "measure"), (client, "gradient_variance"), (simulated, "collect")],
    "dynamite-feedback": [(Tracker, "step"), (Tracker, "paths"), (loop, "with_path")],
}


def overhead(setting: Setting, rounds: int, name: str) -> None:
    """What share of a round a controller's own work is: measuring, and choosing the next plan.

    Rounds are of the given steps and sizes; it decides from what they show, beside them.
    """
    probes = Stopwatch()
    for owner, function in MEASURING[name]:
        probes.watch(owner, function)
    dynamite = make_controller(name, learning_rate=RATE)
    given = Measuring(
        local_steps=setting.local_steps, batch_size=setting.batch_size, asked=dynamite.measures
    )
    ours = Ours(setting, 1, given)
    cohort = ours.progress.cohort
    _, state = dynamite.start(ours.training.fleet, TIGHT, cohort)
    shares, choices = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        ours.progress, played = play(ours.training, ours.progress)
        whole = time.perf_counter() - start
        assert played is not None  # noqa: S101
        start = time.perf_counter()
        _, state = dynamite.adapt(played.outcome.report, TIGHT, cohort, state)
        choices.append(time.perf_counter() - start)
        shares.append((probes.read() + choices[-1]) / (whole + choices[-1]))
    later = ", ".join(f"{share:.2%}" for share in shares[1:])
    print(
        f"{name}, cnn, {setting.clients} clients, batch {setting.batch_size}, "
        f"{setting.local_steps} steps, {whole:.1f} s a round: measuring and choosing {later} of a "
        f"round (at most 5%); of the first {shares[0]:.2%}\n"
        f"  a choice alone {spread(choices[1:])}"
    )


def main() -> None:
    torch.set_num_threads(1)
    flat = make_task(softmax)
    print("A round beside a bare loop on one thread (median, middle half):")
    for local_steps in (2, 5):
        for clients in (20, 100):
            for batch_size, target in ((60, 2.5), (6, 4.0)):
                setting = Setting(flat, clients, batch_size, local_steps)
                compare("softmax, 1 process", setting, 1, 3000 // clients, target)
    images = make_task(cnn, samples=6000)
    compare("cnn, 2 workers", Setting(images, 20, 60, 2), 2, 7, 1.7)
    print("\nDYNAMITE's own work:")
    for name in MEASURING:
        overhead(Setting(images, 20, 60, 5), 5, name)


if __name__ == "__main__":
    main()
