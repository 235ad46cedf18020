"""Trial steps: which learning rate is stable for a client's first batch.

A step of learning rate eta moves the model by d. Along d, the loss of the batch has the slope
<g, d> before the step and <g', d> after it, where g and g' are the gradients of the same batch.
With plain SGD and a loss of curvature h along the step, the slope falls by the share eta h. At a
share of 1, the step ends where the loss is least, and beyond 2 the loss rises. So the rate at which
the slope falls by 0.7 is taken for the largest stable one. The rule holds for any optimiser,
because it uses only the movement that the optimiser makes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from dynamite_fl._validate import check_name
from dynamite_fl.client.local_steps import StepComputer
from dynamite_fl.client.messages import RATE_TRIALS, Order
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import FloatArray, IntArray

_FALL = 0.7  # the share by which the slope falls in a step of the largest stable rate
_GRADIENTS = 2  # the gradients that a trial computes: before its step and after it
_MOST_TRIALS = 12  # in a search
_LARGEST_RAISE = 100.0  # the most by which one trial can raise the rate
_LARGEST_CUT = 0.01  # the most by which one trial can lower the rate, as a factor
_CONFIRMED = 2.0  # a search ends when a trial raises its rate by less than this factor
_ADOPTED = 0.5  # the rate that a client adopts, relative to the largest stable one


def most_trial_gradients(kind: str) -> int:
    """Return the most gradients that a client computes in a trial of one of ``RATE_TRIALS``.

    Example:
        >>> [most_trial_gradients(kind) for kind in RATE_TRIALS]
        [0, 2, 24, 24]
    """
    trials = {"none": 0, "check": 1}.get(kind, _MOST_TRIALS)
    return _GRADIENTS * trials


@dataclass(frozen=True, eq=False)
class TriedRates:
    """What trial steps showed.

    Attributes:
        stable_rates: The largest stable rate of each client, NaN if it was not tried, (n,).
        steepness: The slope of each client's loss along the step, divided by its rate, likewise.
        gradients: The number of gradients that each client computed for it.
    """

    stable_rates: FloatArray
    steepness: FloatArray
    gradients: int


def try_rates(
    order: Order, batches: Sequence[IntArray], steps: StepComputer
) -> tuple[Order, TriedRates]:
    """Take the trial steps that an order asks for, and return the order of the local steps.

    Args:
        order: The order of n clients.
        batches: The first batch of each client, n arrays. A search takes one client.
        steps: Computes steps of n clients.
    """
    kind = order.rate_trial
    check_name("rate_trial", kind, RATE_TRIALS)
    if kind == "none":
        nothing = np.full(len(batches), math.nan)
        return order, TriedRates(nothing, nothing, 0)
    if kind == "check":
        return order, try_once(order, batches, steps)
    (batch,) = batches
    tried = find_rate(order, batch, steps)
    if kind == "adopt":
        order = replace(order, learning_rate=_ADOPTED * float(tried.stable_rates[0]))
    return order, tried


def try_once(order: Order, batches: Sequence[IntArray], steps: StepComputer) -> TriedRates:
    """Take one trial step of each client.

    One step tells no more than 100 times its own rate. Afterwards the clients' models are at the
    end of their trial steps, and ``steps.begin`` has to be called again.

    Args:
        order: The order. The trial step has its learning rate and begins at its global model.
        batches: The batch of each client, n arrays.
        steps: Computes steps of n clients.
    """
    steps.begin(order, len(batches))
    before = steps.step(batches, measure=True).gradients
    movement = (order.weights - steps.weights())[:, : steps.trained].double()
    after = steps.step(batches, measure=True).gradients
    if before is None or after is None:
        raise InvalidInput("a step that is measured must return gradients")
    slope = (before.double() * movement).sum(1)
    fall = 1 - (after.double() * movement).sum(1) / slope
    factor = (_FALL / fall.clamp(min=_FALL / _LARGEST_RAISE)).clamp(min=_LARGEST_CUT)
    # A slope of 0 says nothing about rates. NaN shows that the step has left all numbers.
    factor = torch.where(slope == 0, 1.0, factor.nan_to_num(nan=_LARGEST_CUT))
    rate = order.learning_rate
    return TriedRates(rate * factor.numpy(), slope.numpy() / rate, _GRADIENTS)


def find_rate(order: Order, batch: IntArray, steps: StepComputer) -> TriedRates:
    """Search for the largest stable rate of one client, beginning at the order's rate.

    Each trial predicts the stable rate from the slope along its step, and the next trial checks the
    prediction. The rate that is found is stable, and twice that rate is probably not.
    """
    rate, too_large = order.learning_rate, math.inf
    for trials in range(1, _MOST_TRIALS + 1):
        tried = try_once(replace(order, learning_rate=rate), [batch], steps)
        tried = replace(tried, gradients=trials * _GRADIENTS)
        stable = float(tried.stable_rates[0])
        if stable < rate:
            too_large = min(too_large, rate)
        elif stable <= _CONFIRMED * rate or too_large <= _CONFIRMED * rate:
            break
        rate = min(stable, math.sqrt(rate * too_large))
    return tried
