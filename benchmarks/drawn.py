"""Jobs drawn at random, to see whether the feedback does well on what it was not made with.

They have other fleets and other data than those of ``cases.py``, and limits that leave from less
than half of what FedAvg's default takes to three times as much.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import nn

from cases import PARTITIONS as KNOWN
from dynamite_fl.job.devices import build_devices
from dynamite_fl.plan._problem import round_seconds
from dynamite_fl.records import FloatArray
from dynamite_fl.simulation.devices import nominal_fleet
from dynamite_fl.task import models

MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "softmax": models.softmax_regression,
    "svm": lambda features, _: models.support_vector_machine(features),
    "perceptron": models.perceptron,
}
DATA = {"digits": (8 * 8, 10), "mnist": (28 * 28, 10), "emnist-reduced": (28 * 28, 47)}
PARTITIONS = {
    "Dirichlet 0.1": 'kind = "dirichlet"\nalpha = 0.1',
    "Dirichlet 1": 'kind = "dirichlet"\nalpha = 1.0',
    "by label": KNOWN["by label"],
    "shards": 'kind = "shards"',
    "unequal": 'kind = "unequal"',
}
STEPS, SIZE = 2, 60  # FedAvg's default


@dataclass(frozen=True)
class Drawn:
    """A job, and what tells it from others; ``cells`` and ``name`` are as those of a ``Case``."""

    name: str
    cells: list[str]
    job: str


def drawn(number: int) -> list[Drawn]:
    """Return the first jobs of an endless sequence."""
    return [_job(index, np.random.default_rng([20261116, index])) for index in range(number)]


def _job(index: int, random: np.random.Generator) -> Drawn:
    dataset, model = str(random.choice([*DATA])), str(random.choice([*MODELS]))
    partition = str(random.choice([*PARTITIONS]))
    random.uniform()  # jobs had a learning rate once, and stay what they were
    rounds = int(_between(random, 40, 200))
    fleet = _fleet(random, int(random.integers(5, 31)))
    devices = fleet["latency"].size
    computing = float(random.uniform(0.1, 0.7))  # its share of FedAvg's cost, which is 1 a round
    time, money = _between(random, 0.4, 3), _between(random, 0.8, 3)
    columns = "\n".join(f"{key} = {column.tolist()}" for key, column in fleet.items())
    job = f"""
[devices]
{columns}
jitter = 0.1
comm_jitter = 0.1

[task]
model = "{model}"
dataset = "{dataset}"

[partition]
{PARTITIONS[partition]}

[limits]
rounds = {rounds}
deadline = {rounds * time * _seconds(fleet, model, dataset):.1f}
budget = {rounds * money:.2f}
cost_per_sample = {computing / (STEPS * SIZE * devices):.3g}
cost_per_round = {1 - computing:.3f}

[controller]
name = "dynamite-feedback"

[training]
evaluate_every = 20
"""
    overhead = 1000 * float(np.median(fleet["step_overhead"]))
    cells = [f"{model}, {dataset}", partition, "SGD", str(rounds)]
    cells += [f"{overhead:.1f} ms, {devices} devices", f"{time:.2g} x time, {money:.2g} x cost"]
    return Drawn(f"drawn-{index}-{model}-{dataset}", cells, job)


def _between(random: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(random.uniform(math.log(low), math.log(high))))


def _fleet(random: np.random.Generator, devices: int) -> dict[str, FloatArray]:
    """Devices that differ in all they have by factors of 4 to 100."""

    def each(low: float, high: float) -> FloatArray:
        return np.exp(random.uniform(math.log(low), math.log(high), devices))

    return {
        "samples_per_second": each(100, 4000).round(1),
        "step_overhead": (_between(random, 0.5, 20) / 1000 * each(0.5, 2)).round(5),
        "latency": each(0.02, 0.4).round(3),
        "bandwidth": each(2e5, 2e7).round(),
    }


def _seconds(fleet: dict[str, FloatArray], model: str, dataset: str) -> float:
    """Return the seconds that the slowest device takes for a round of FedAvg's default."""
    weights = models.count_parameters(MODELS[model](*DATA[dataset]))
    devices = build_devices(fleet, seed=0)
    known = nominal_fleet(devices, [SIZE] * len(devices), 1.0, round_bytes=2 * 4 * weights)
    return float(round_seconds(known, STEPS, SIZE).max())
