"""Trial steps: which learning rate is stable for a client's batches.

A step of learning rate eta moves the model by d. Along d, the loss of the batch has the slope
<g, d> before the step and <g', d> after it, where g and g' are the gradients of the same batch.
With plain SGD and a loss of curvature h along the step, the slope falls by the share eta h. At a
share of 1, the step ends where the loss is least, and beyond 2 the loss rises. So the rate at which
the slope falls by half is taken for the largest stable one. The rule holds for any optimiser,
because it uses only the movement that the optimiser makes.

There are two kinds of trials. A search begins at the global model, and changes the rate until the
slope falls as it should. If the order asks for it, much larger rates then race with the one that
was found (``rate_race.py``). A check looks at the last local step of a round, where local models
are furthest from the global one and the loss bends most. It costs one more gradient.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from dynamite_fl.client.local_steps import LastStep, StepComputer
from dynamite_fl.client.messages import Order
from dynamite_fl.client.rate_race import MOST_RACE_GRADIENTS, race_batch, race_rates
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.reports import STABLE_FALL

_GRADIENTS = 2  # the gradients of a trial in a search: before its step and after it
_MOST_TRIALS = 12  # in a search
_LARGEST_FIRST = 1.0  # the largest rate at which a search begins; absurd ones would take too long
_LARGEST_RAISE = 100.0  # the most by which one trial can raise the rate
_LARGEST_CUT = 0.01  # the most by which one trial can lower the rate, as a factor
_CONFIRMED = 2.0  # a search ends when a trial raises its rate by less than this factor
_ADOPTED = 0.5  # the rate that a client adopts, relative to the largest stable one


def most_trial_samples(order: Order, batch_size: int, least_batch: int | None) -> int:
    """Return the most samples that a client computes on in the trial that an order asks for.

    Args:
        order: The order.
        batch_size: The number of samples in the client's batches.
        least_batch: The least batch of the model; None if any will do.
    """
    gradients = {"none": 0, "check": 1}.get(order.rate_trial, _GRADIENTS * _MOST_TRIALS)
    race = MOST_RACE_GRADIENTS * race_batch(least_batch) if order.race else 0
    return gradients * batch_size + race


@dataclass(frozen=True)
class TriedRate:
    """What the trials of one client showed.

    Attributes:
        stable_rate: The largest stable rate; NaN if none was tried.
        steepness: The slope of the loss along the step, divided by its rate. NaN likewise.
        gradients: The number of gradients that were computed for it.
        samples: The number of samples that they were computed on.
        race_factor: The rate that won a race, relative to the stable one; NaN if there was none.
    """

    stable_rate: float
    steepness: float
    gradients: int
    samples: int
    race_factor: float = math.nan


NO_TRIAL = TriedRate(math.nan, math.nan, 0, 0)


def check_rates(
    order: Order, last_steps: Sequence[LastStep | None], steps: StepComputer
) -> list[TriedRate]:
    """Return what the last local steps of n clients show about the order's rate.

    The clients' models take one more step afterwards, which nobody uses.

    Args:
        order: The order.
        last_steps: The last step of each client.
        steps: Computes steps of the n clients. Their models are at the end of these steps.
    """
    known = [step for step in last_steps if step is not None]
    after = steps.step([step.batch for step in known], measure=True).gradients
    if after is None or len(known) < len(last_steps):
        raise InvalidInput("a step that is measured must return gradients")
    return [
        _judge(step.gradient, gradient, step.movement, order.learning_rate, step.batch.size)
        for step, gradient in zip(known, after, strict=True)
    ]


def search_rate(
    order: Order, batch: IntArray, raced: Sequence[IntArray], steps: StepComputer
) -> tuple[Order, TriedRate]:
    """Search for the largest stable rate of one client, and perhaps let larger ones race with it.

    The search begins at the order's rate, 1 at most.

    Each trial predicts the stable rate from the slope along its step, and the next trial checks the
    prediction. The rate that is found is stable, and twice that rate is probably not.

    Args:
        order: The order. If its trial is ``adopt``, the local steps have half of the stable rate.
        batch: The rows of the first batch.
        raced: The rows of the batches of the race; empty if there is none.
        steps: Computes steps of one client.

    Returns:
        The order of the local steps, and what the trials showed.
    """
    tried = _search(order, batch, steps)
    if raced:
        race = race_rates(order, raced, tried.stable_rate, steps)
        tried = replace(
            tried,
            race_factor=race.factor,
            gradients=tried.gradients + race.gradients,
            samples=tried.samples + race.samples,
        )
    if order.rate_trial == "adopt":
        order = replace(order, learning_rate=_ADOPTED * tried.stable_rate)
    return order, tried


def _search(order: Order, batch: IntArray, steps: StepComputer) -> TriedRate:
    """Return what the trials of a search for the largest stable rate show."""
    rate, too_large = min(order.learning_rate, _LARGEST_FIRST), math.inf
    for trials in range(1, _MOST_TRIALS + 1):
        tried = _try_once(replace(order, learning_rate=rate), batch, steps)
        gradients = trials * _GRADIENTS
        tried = replace(tried, gradients=gradients, samples=gradients * batch.size)
        if tried.stable_rate < rate:
            too_large = min(too_large, rate)
        elif min(tried.stable_rate, too_large) <= _CONFIRMED * rate:
            break
        rate = min(tried.stable_rate, math.sqrt(rate * too_large))
    return tried


def _try_once(order: Order, batch: IntArray, steps: StepComputer) -> TriedRate:
    """Take one trial step from the global model at the order's rate."""
    steps.begin(order, 1)
    before = steps.step([batch], measure=True).gradients
    movement = (order.weights - steps.weights()[0])[: steps.trained]
    after = steps.step([batch], measure=True).gradients
    if before is None or after is None:
        raise InvalidInput("a step that is measured must return gradients")
    return _judge(before[0], after[0], movement, order.learning_rate, batch.size)


def _judge(before: Tensor, after: Tensor, movement: Tensor, rate: float, samples: int) -> TriedRate:
    """Return what a step shows, by the gradients of its batch before and after it.

    The gradient after it was computed for the trial.
    """
    moved = movement.double()
    slope, slope_after = float(before.double() @ moved), float(after.double() @ moved)
    if slope <= 0:  # momentum may move against the gradient, which says nothing about rates
        return TriedRate(rate, 0.0, 1, samples)
    fall = 1 - slope_after / slope
    factor = _LARGEST_CUT  # for NaN, which shows that the step has left all numbers
    if math.isfinite(fall):
        factor = max(STABLE_FALL / max(fall, STABLE_FALL / _LARGEST_RAISE), _LARGEST_CUT)
    steepness = slope / rate
    steepness = steepness if math.isfinite(steepness) else math.nan
    return TriedRate(rate * factor, steepness, 1, samples)
