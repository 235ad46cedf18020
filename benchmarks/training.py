"""The speed of a round, next to that of a loop written by hand. Run by ``make bench``.

Our time includes everything that a round does: timing, draws, local steps, averaging, the ledger
and the controller. Both are measured in turn, so that other load on the machine affects both alike.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from dynamite_fl.client import client
from dynamite_fl.client import local_steps as steps_module
from dynamite_fl.client.executors.dense import DenseSteps
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import Order
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.step_path import PathRecorder
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.control.controller import Controller, Measure
from dynamite_fl.control.registry import make_controller
from dynamite_fl.partitions import wang
from dynamite_fl.records import FloatArray, IntArray, Limits
from dynamite_fl.simulation import engine as simulated
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.task import losses, models, registry
from dynamite_fl.task.task import Task
from dynamite_fl.task.tensor_samples import TensorSamples
from dynamite_fl.training import loop
from dynamite_fl.training.loop import begin, run_round
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.training import Schedule, Training

RATE = 0.01
IMAGE = (1, 28, 28)
TIGHT = Limits(rounds=200, deadline=200, budget=4000, cost_per_sample=0.01, cost_per_round=1)


def make_task(model: Callable[[], nn.Module], samples: int = 60_000) -> Task:
    """Make a task of random images; what is learned does not matter here."""
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, *IMAGE, generator=random)
    targets = torch.randint(0, 10, (samples,), generator=random)
    return Task(
        name="random images",
        model=model,
        loss=losses.cross_entropy,
        train_data=(inputs, targets),
        test_data=(inputs[:1], targets[:1]),
    )


def softmax() -> nn.Module:
    return models.softmax_regression(784, 10)


def perceptron() -> nn.Module:
    return models.perceptron(784, 10, hidden=64)


def cnn() -> nn.Module:
    return models.convolutional_network(IMAGE, 10)


@dataclass(frozen=True)
class Setting:
    """The task and the plan of a round."""

    task: Task
    clients: int
    batch_size: int
    local_steps: int


class Bare:
    """Federated averaging written by hand: a module, an optimiser, a loop."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.model = setting.task.new_model(seed=0)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.loss = nn.CrossEntropyLoss()
        self.state = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.inputs, self.targets = setting.task.train_data
        partition = wang(case=1).split(self.targets.numpy(), setting.clients)
        self.indices = [
            torch.from_numpy(partition.indices(client).copy()) for client in range(len(partition))
        ]

    def round(self) -> None:
        """Take the local steps of all clients, one after the other, and average their models."""
        total = sum(len(own) for own in self.indices)
        average = {name: torch.zeros_like(value) for name, value in self.state.items()}
        for own in self.indices:
            self.model.load_state_dict(self.state)
            self._train(own)
            for name, value in self.model.state_dict().items():
                average[name] += value * (len(own) / total)
        self.state = average

    def _train(self, own: Tensor) -> None:
        for _ in range(self.setting.local_steps):
            batch = own[torch.randint(len(own), (self.setting.batch_size,))]
            self.optimizer.zero_grad()
            self.loss(self.model(self.inputs[batch]), self.targets[batch]).backward()
            self.optimizer.step()


class Ours:
    """A training of ours without an end, round by round."""

    def __init__(self, setting: Setting, workers: int, controller: Controller[Any]) -> None:
        labels = setting.task.train_labels()
        self.engine = SimulatedEngine(
            task=setting.task,
            partition=wang(case=1).split(labels, setting.clients),
            devices=Devices(samples_per_second=np.linspace(500, 1500, setting.clients)),
            workers=workers,
        )
        limits = Limits(
            deadline=1e9, budget=1e9, cost_per_sample=1e-3, cost_per_round=1, rounds=10**6
        )
        schedule = Schedule(evaluate_every=10**9)
        fleet, rate = self.engine.enroll(), RateSchedule(RATE)
        self.training = Training(self.engine, controller, limits, schedule, fleet, rate)
        self.progress: Progress = begin(self.training)

    def round(self) -> None:
        """Run one whole round."""
        self.progress, _ = run_round(self.training, self.progress)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(values: list[float] | FloatArray) -> str:
    """Return the median and the quartiles as text."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle * 1e3:8.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f})"


def compare(name: str, setting: Setting, workers: int, repeats: int, target: float) -> None:
    """Time rounds of both in turn; the ratio is the median of the ratios of neighbours."""
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
        f"{setting.local_steps} steps: bare {spread([first for first, _ in pairs])}   "
        f"ours {spread([second for _, second in pairs])}   "
        f"{ratio:.1f} times ({low:.1f} to {high:.1f}; at least {target})",
        flush=True,
    )


@dataclass(frozen=True, kw_only=True)
class Measuring(FedAvg):
    """Fixed local steps and batch sizes, with the measurements of another controller."""

    asked: Measure

    @property
    def measures(self) -> Measure:
        """The measurements of the other controller."""
        return self.asked


class Stopwatch:
    """The seconds that some functions take."""

    def __init__(self) -> None:
        self.total = 0.0

    def watch(self, owner: ModuleType | type, name: str) -> None:
        """Count the time of a function of a module or a method of a class from now on."""
        function = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            result = function(*given, **named)
            self.total += time.perf_counter() - start
            return result

        setattr(owner, name, watched)

    def read(self) -> float:
        """Return the seconds since the last reading."""
        total, self.total = self.total, 0.0
        return total


# The functions that clients and server call only for a controller's measurements.
MEASURING: dict[str, list[tuple[ModuleType | type, str]]] = {
    "dynamite": [(client, "measure"), (steps_module, "gradient_variance"), (simulated, "collect")],
    "dynamite-feedback": [
        (PathRecorder, "record_gradients"),
        (PathRecorder, "record_first_half"),
        (PathRecorder, "paths"),
        (loop, "with_path"),
    ],
}


def overhead(setting: Setting, rounds: int, name: str) -> None:
    """Print the share of a round that a controller's measurements and decisions take.

    Rounds have the given steps and sizes; the controller's decisions are not followed.
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
        ours.progress, played = run_round(ours.training, ours.progress)
        whole = time.perf_counter() - start
        assert played is not None  # noqa: S101
        start = time.perf_counter()
        fleet = ours.training.fleet
        _, state = dynamite.adapt(played.outcome.report, fleet, TIGHT, cohort, state)
        choices.append(time.perf_counter() - start)
        shares.append((probes.read() + choices[-1]) / (whole + choices[-1]))
    later = ", ".join(f"{share:.2%}" for share in shares[1:])
    print(
        f"{name}, cnn, {setting.clients} clients, batch {setting.batch_size}, "
        f"{setting.local_steps} steps, {whole:.1f} s a round: measuring and choosing {later} of a "
        f"round (at most 5%); of the first {shares[0]:.2%}\n"
        f"  a choice alone {spread(choices[1:])}"
    )


class VmapSteps:
    """Local steps of many clients with ``torch.func.vmap``, instead of ``DenseSteps``."""

    def __init__(self, model: FlatModel, samples: TensorSamples) -> None:
        self._samples = samples
        shapes = {name: weight.shape for name, weight in model.module.named_parameters()}
        sizes = [shape.numel() for shape in shapes.values()]

        def loss(weights: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
            parts = zip(shapes.items(), torch.split(weights, sizes), strict=True)
            named = {name: part.view(shape) for (name, shape), part in parts}
            outputs = functional_call(model.module, named, (inputs,))
            return losses.cross_entropy(outputs, targets).mean()

        self._gradients = vmap(grad_and_value(loss))

    def begin(self, order: Order, clients: int) -> None:
        """Begin at the global model."""
        self._weights, self._rate = order.weights.repeat(clients, 1), order.learning_rate

    def step(self, batches: list[IntArray], *, measure: bool) -> None:  # noqa: ARG002
        """Take one local step of each client; batches have the same size."""
        rows = torch.from_numpy(np.stack(batches))
        inputs, targets = self._samples.inputs[rows], self._samples.targets[rows]
        gradients, _ = self._gradients(self._weights, inputs, targets)
        self._weights.sub_(gradients, alpha=self._rate)


def compare_gradients(name: str, setting: Setting, repeats: int = 25) -> None:
    """Time the local steps of all clients with hand-written gradients, vmap and one by one."""
    task = setting.task
    model = FlatModel(task, seed=0)
    random = np.random.default_rng(0)
    size = (setting.local_steps, setting.clients, setting.batch_size)
    batches = [list(step) for step in random.integers(len(task.train), size=size)]
    samples = task.train
    assert isinstance(samples, TensorSamples)  # noqa: S101
    dense = DenseSteps(model, samples, losses.cross_entropy)
    mapped = VmapSteps(model, samples)
    single = steps_module.AutogradSteps(model, samples, Optimizer())
    order = Order(
        client=0,
        round_index=1,
        weights=model.first_weights,
        local_steps=setting.local_steps,
        batch_size=setting.batch_size,
        learning_rate=RATE,
        probe=False,
        remember=False,
    )

    def together(steps: DenseSteps | VmapSteps) -> None:
        steps.begin(order, setting.clients)
        for step in batches:
            steps.step(step, measure=False)

    def one_by_one() -> None:
        for client_batches in zip(*batches, strict=True):
            single.begin(order, 1)
            for batch in client_batches:
                single.step([batch], measure=False)

    ways: list[Callable[[], None]] = [lambda: together(dense), lambda: together(mapped), one_by_one]
    for way in ways:
        way()
    times = np.array([[seconds(way) for way in ways] for _ in range(repeats)])
    ratios = np.median(times[:, 1:] / times[:, :1], axis=0)
    print(
        f"{name}, {setting.clients:>3} clients, batch {setting.batch_size:>2}, "
        f"{setting.local_steps:>2} steps: by hand {spread(times[:, 0])}   "
        f"vmap {spread(times[:, 1])}, {ratios[0]:.1f} times as long   "
        f"one by one {spread(times[:, 2])}, {ratios[1]:.1f} times",
        flush=True,
    )


def compare_all_gradients(flat: Task) -> None:
    """Compare the ways to compute gradients for three small models."""
    print("Local steps of many clients at once (median, middle half):")
    for clients in (20, 100):
        for batch_size in (6, 60):
            compare_gradients("softmax 784x10", Setting(flat, clients, batch_size, 5))
    hidden = make_task(perceptron)
    for batch_size in (1, 3, 6):
        compare_gradients("perceptron 784-64-10", Setting(hidden, 20, batch_size, 40))
    embedded = registry.make_task("perceptron", "digits")
    for batch_size in (1, 6, 20):
        compare_gradients("perceptron, digits", Setting(embedded, 10, batch_size, 10))


def main() -> None:
    torch.set_num_threads(1)
    flat = make_task(softmax)
    compare_all_gradients(flat)
    if "--gradients" in sys.argv:
        return
    print("\nA round next to a loop written by hand, on one thread (median, middle half):")
    for local_steps in (2, 5):
        for clients in (20, 100):
            for batch_size, target in ((60, 2.5), (6, 4.0)):
                setting = Setting(flat, clients, batch_size, local_steps)
                compare("softmax, 1 process", setting, 1, 3000 // clients, target)
    hidden = make_task(perceptron)
    for batch_size, target in ((60, 2.0), (6, 3.5)):
        compare("perceptron, 1 process", Setting(hidden, 20, batch_size, 5), 1, 60, target)
    images = make_task(cnn, samples=6000)
    compare("cnn, 2 workers", Setting(images, 20, 60, 2), 2, 7, 1.7)
    print("\nDYNAMITE's own work:")
    for name in MEASURING:
        overhead(Setting(images, 20, 60, 5), 5, name)


if __name__ == "__main__":
    main()
