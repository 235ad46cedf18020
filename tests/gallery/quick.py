"""The examples with little data and few rounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dynamite_fl as fl
from dynamite_fl.task.task import Task
from tests.task.fixtures import write

FOLDER = Path(__file__).parents[2] / "examples"
ROUNDS = 3
LIMITS: dict[str, Any] = {
    "deadline": 1e6,
    "budget": 1e6,
    "cost_per_sample": 0.001,
    "cost_per_round": 1.0,
    "rounds": ROUNDS,
    "max_local_steps": 4,
}


@dataclass(frozen=True)
class Example:
    """An example, and how to run it quickly.

    Attributes:
        name: The name of its file.
        arguments: The arguments of its ``make_task``.
        learning_rate: The learning rate.
        optimizer: The job's table ``optimizer``.
        data: The argument that says in which folder the data is; None if there is none.
        clients: The argument that says how many clients there are; None if there is none.
    """

    name: str
    arguments: Mapping[str, Any]
    learning_rate: float
    optimizer: Mapping[str, Any] = field(default_factory=lambda: {"name": "SGD"})
    data: str | None = None
    clients: str | None = None

    def task_arguments(self, clients: int, folder: Path) -> dict[str, Any]:
        """Return all arguments of ``make_task``.

        Args:
            clients: The number of clients.
            folder: The folder for data that the example writes.
        """
        own = {self.clients: clients} if self.clients else {}
        return {**self.arguments, **own, **({self.data: str(folder)} if self.data else {})}

    def task(self, clients: int, folder: Path) -> Task:
        """Make the example's task."""
        arguments = self.task_arguments(clients, folder)
        return fl.load_task(f"{self.name}:make_task", [FOLDER], arguments)

    def train(self, task: Task, clients: int, **settings: Any) -> fl.Result:
        """Train on simulated devices of different speeds, for three rounds."""
        return fl.train(
            task,
            devices=fl.Devices(samples_per_second=[100.0 * 2**k for k in range(clients)]),
            limits=fl.Limits(**LIMITS),
            learning_rate=self.learning_rate,
            optimizer=fl.Optimizer(**self.optimizer),
            **settings,
        )


EXAMPLES = (
    Example(
        "adamw_clipping",
        {"samples": 60},
        learning_rate=0.01,
        optimizer={"name": "AdamW", "weight_decay": 0.05, "clip_norm": 1.0},
    ),
    Example("imbalanced", {"samples": 150}, learning_rate=0.1, clients="clients"),
    Example("lora_transformer", {"samples": 50}, learning_rate=0.01, optimizer={"name": "AdamW"}),
    Example("memory_mapped", {"samples": 100}, learning_rate=0.01, data="folder"),
    Example(
        "resnet_cifar10",
        {"samples": 75, "width": 2},
        learning_rate=0.05,
        optimizer={"name": "SGD", "momentum": 0.9, "weight_decay": 5e-4},
    ),
    Example("tabular_regression", {"samples": 100}, learning_rate=0.05),
    Example("text_lengths", {"samples": 60}, learning_rate=0.5),
)


def write_small_cifar(folder: Path) -> None:
    """Write six batches of 20 images in the published binary form of CIFAR-10."""
    random = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        rows = random.integers(0, 256, (20, 3073))
        rows[:, 0] %= 10
        write(folder / f"{name}.bin", rows.astype(np.uint8).tobytes())
