"""Measurements of the local steps in a train function of the user's own.

A ``StepMeter`` watches a model while a Flower app trains it. What it measures is sent beside the
model, in a record of its own, and is what ``dynamite-feedback`` decides by (docs/control.md).
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from flwr.app import ConfigRecord
from torch import Tensor, nn

from dynamite_fl.client.sketch import sketch
from dynamite_fl.client.step_path import (
    MEASURED_GRADIENTS,
    batch_gradient_variance,
    steps_in_first_half,
)
from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower.wire import Malformed

MEASUREMENTS = "dynamite"  # the name of the record in a reply
LOCAL_STEPS, BATCH_SIZE, LEARNING_RATE = "local_steps", "batch_size", "learning_rate"

_MOST_NUMBERS = 251  # of a sketch


class StepMeter:
    """Measures the local steps of one round: how long they take, and where they lead.

    Make it right before the first local step, call ``step`` after every step of the optimiser,
    and add ``record()`` to the reply under the name ``dynamite``.

    Args:
        model: The model that is trained. It already has the weights of the message.
        config: The config of the message that asks for the round.

    Raises:
        InvalidInput: The config has no local steps and batch size.

    Example:
        >>> config = {"local_steps": 2, "batch_size": 4, "learning_rate": 0.1}
        >>> model = nn.Linear(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> meter = StepMeter(model, config)
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     model(torch.ones(4, 3)).mean().backward()
        ...     optimizer.step()
        ...     meter.step()
        >>> sorted(meter.record())[:3]
        ['first_half', 'gradient_sum', 'gradient_variance']
    """

    def __init__(self, model: nn.Module, config: Mapping[str, Any]) -> None:
        if not (LOCAL_STEPS in config and BATCH_SIZE in config):
            raise InvalidInput(
                f"the config has no {LOCAL_STEPS!r} and {BATCH_SIZE!r}: the server's strategy must "
                "be a WithinLimits"
            )
        self._local_steps = int(config[LOCAL_STEPS])
        self._batch_size = int(config[BATCH_SIZE])
        self._parameters = [weight for weight in model.parameters() if weight.requires_grad]
        self._start = self._weights()
        self._gradient_sum = torch.zeros_like(self._start)
        self._first_gradients: list[Tensor] = []
        self._first_half: Tensor | None = None
        self._steps = 0
        self._began = self._last_step = time.perf_counter()

    def step(self) -> None:
        """Note that the optimiser has made a step. Gradients must still be those of this step."""
        self._steps += 1
        first_half = steps_in_first_half(self._local_steps)
        if self._steps <= max(first_half, MEASURED_GRADIENTS):
            gradient = self._gradient()
            if len(self._first_gradients) < MEASURED_GRADIENTS:
                self._first_gradients.append(gradient)
            if self._steps <= first_half:
                self._gradient_sum += gradient
        if self._steps == first_half:
            self._first_half = self._start - self._weights()
        self._last_step = time.perf_counter()

    def record(self) -> ConfigRecord:
        """Return the measurements, to be added to the reply.

        Raises:
            InvalidInput: The train function has made another number of steps than it was asked for.
        """
        if self._first_half is None or self._steps != self._local_steps:
            raise InvalidInput(
                f"the train function made {self._steps} local steps, but the config asks for "
                f"{self._local_steps}: make as many as it says in {LOCAL_STEPS!r}, and "
                "call StepMeter.step after each of them"
            )
        variance = math.nan
        if len(self._first_gradients) > 1:
            variance = float(batch_gradient_variance(self._first_gradients)) * self._batch_size
        return ConfigRecord(
            {
                "first_half": sketch(self._first_half).tolist(),
                "movement": sketch(self._start - self._weights()).tolist(),
                "gradient_sum": sketch(self._gradient_sum).tolist(),
                "gradient_variance": variance,
                "step_seconds": (self._last_step - self._began) / self._local_steps,
                "seconds": time.perf_counter() - self._began,
            }
        )

    def _weights(self) -> Tensor:
        return _flat(self._parameters)

    def _gradient(self) -> Tensor:
        return _flat(
            [
                torch.zeros_like(weight) if weight.grad is None else weight.grad
                for weight in self._parameters
            ]
        )


@dataclass(frozen=True, eq=False)
class Measurements:
    """What a ``StepMeter`` measured on one node.

    Attributes:
        first_half: A sketch of the movement of the first half of the steps, (m,).
        movement: A sketch of the movement of all steps, (m,).
        gradient_sum: A sketch of the sum of the gradients in the first half, (m,).
        gradient_variance: M_i, or NaN if the round has a single step.
        step_seconds: Seconds of one local step.
        seconds: Seconds from the meter's start to its record.
    """

    first_half: Tensor
    movement: Tensor
    gradient_sum: Tensor
    gradient_variance: float
    step_seconds: float
    seconds: float


def read_measurements(record: ConfigRecord) -> Measurements:
    """Return the measurements that a node has sent.

    Raises:
        Malformed: The record is not one that a ``StepMeter`` has made.
    """
    names = ("first_half", "movement", "gradient_sum")
    first_half, movement, gradient_sum = (_read_sketch(record, name) for name in names)
    if not len(first_half) == len(movement) == len(gradient_sum):
        raise Malformed("its sketches have different lengths")
    variance = record.get("gradient_variance")
    if not isinstance(variance, float) or variance < 0:  # NaN is allowed
        raise Malformed("its gradient variance is not a number")
    return Measurements(
        first_half,
        movement,
        gradient_sum,
        variance,
        step_seconds=_read_seconds(record, "step_seconds"),
        seconds=_read_seconds(record, "seconds"),
    )


def _read_sketch(record: ConfigRecord, name: str) -> Tensor:
    numbers = record.get(name)
    if not isinstance(numbers, list) or not 0 < len(numbers) <= _MOST_NUMBERS:
        raise Malformed(f"{name} is not a sketch")
    if not all(isinstance(number, float) for number in numbers):
        raise Malformed(f"{name} is not a sketch")
    return torch.tensor(numbers, dtype=torch.float64)


def _read_seconds(record: ConfigRecord, name: str) -> float:
    seconds = record.get(name)
    if not isinstance(seconds, float) or not 0 <= seconds < math.inf:
        raise Malformed(f"{name} is not a number of seconds")
    return seconds


def _flat(tensors: list[Tensor] | list[nn.Parameter]) -> Tensor:
    """Return one vector of all numbers, on the CPU."""
    return torch.cat([tensor.detach().reshape(-1).float().cpu() for tensor in tensors])
