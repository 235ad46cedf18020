"""What all contenders share: the set-up, the data, the model, and when a round begins.

It is that of pfl-research's benchmark on CIFAR-10 without dropout: 1,000 clients of 50 samples, 50
of them in a round, each with one epoch of batches of 10. It needs only torch and NumPy.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

CLIENTS = 1000
COHORT = 50
BATCH_SIZE = 10
LOCAL_STEPS = 5  # one epoch
RATE = 0.1


@dataclass(frozen=True, eq=False)
class Data:
    """CIFAR-10, with the training samples of client i in rows i, i + 1000, i + 2000, ...

    Attributes:
        inputs: The training images, (50000, 3, 32, 32).
        targets: The labels of the training images, (50000,).
        test_inputs: A thousand test images.
        test_targets: The labels of the test images.
    """

    inputs: Tensor
    targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor

    def of_client(self, client: int) -> tuple[Tensor, Tensor]:
        """Return the images and labels of a client, as views."""
        return self.inputs[client::CLIENTS], self.targets[client::CLIENTS]

    def save(self, folder: Path) -> None:
        """Write the data into a folder."""
        for name, values in vars(self).items():
            np.save(folder / f"{name}.npy", values.numpy())

    @staticmethod
    def load(folder: Path) -> "Data":
        """Read the data that ``save`` has written; all processes share its memory."""
        files = (folder / f"{name}.npy" for name in Data.__dataclass_fields__)
        return Data(*(torch.from_numpy(np.load(file, mmap_mode="c")) for file in files))


def make_model() -> nn.Module:
    """Return two convolutions and a hidden layer, 1.6 million weights."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, kernel_size=3),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 14 * 14, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def train_epoch(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    """Train a model for one epoch of a client's samples in random order."""
    optimizer, loss = torch.optim.SGD(model.parameters(), lr=RATE), nn.CrossEntropyLoss()
    for rows in torch.split(torch.randperm(len(targets)), BATCH_SIZE):
        optimizer.zero_grad()
        loss(model(inputs[rows]), targets[rows]).backward()
        optimizer.step()


class Clock:
    """A contender's side of the benchmark, which says when to run a round.

    Answers go to the standard output, which is therefore kept from everybody else.
    """

    def __init__(self, data: Data) -> None:
        self._data = data
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._began = 0.0

    def wait_for_round(self, model: Callable[[], nn.Module]) -> None:
        """Wait until a round is asked for.

        Args:
            model: Returns the global model, whose test accuracy is asked for at the end.
        """
        while question := sys.stdin.readline().strip():
            if question == "round":
                self._began = time.perf_counter()
                return
            self._answer(self._accuracy(model()))
        os.killpg(0, signal.SIGKILL)  # the benchmark has died; Ray would go on

    def end_round(self) -> None:
        """Report the seconds since the round was asked for."""
        self._answer(time.perf_counter() - self._began)

    def _answer(self, number: float) -> None:
        print(number, file=self._answers, flush=True)

    def _accuracy(self, model: nn.Module) -> float:
        with torch.no_grad():
            classes = model.eval()(self._data.test_inputs).argmax(1)
        return float((classes == self._data.test_targets).double().mean())


def start() -> tuple[Data, Clock]:
    """Return the data in the folder that the first argument names, and the clock."""
    torch.set_num_threads(1)
    data = Data.load(Path(sys.argv[1]))
    return data, Clock(data)
