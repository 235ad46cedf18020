"""A race of learning rates: does a much larger rate than the stable one learn faster?

A search for the largest stable rate (``rate_trial.py``) looks at a single step. The first model of
a deep network is often so steep that a step of a good rate raises the loss, and a few steps later
the loss is lower than with small steps, because the model has moved to where its loss bends less
(Lewkowycz et al., arXiv 2003.02218; with batch normalisation Arora et al., ICLR 2019).

So after the search, some clients take some steps from the global model at the stable rate and at
much larger ones, with the same batches. The winner is the rate with the lowest mean loss in the
second half of these steps. A quadratic loss is stable up to four times the stable rate, so larger
rates win only if the loss is not like a quadratic one, or if the stable rate was much too small.

The race ends with a rate that is clearly worse. Once something is learned, it also ends with the
first rate that is not clearly better than the one before. Much larger rates may seem to be good
again, because they kill the hidden units, and what is left learns how frequent each label is. A
client with a single label learns it at any rate, so no rate is clearly better than the stable one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from dynamite_fl.client.local_steps import StepComputer
from dynamite_fl.client.messages import Order
from dynamite_fl.records import IntArray

RACE_STEPS = 16  # at each rate
_BATCH = 8  # the samples of a step; with fewer, the winner is a matter of chance
_FACTORS = (1.0, 8.0, 32.0, 128.0, 512.0)  # the rates, relative to the stable one
_CLEARLY = 0.04  # the difference of two losses that counts, relative to the first loss

MOST_RACE_GRADIENTS = RACE_STEPS * len(_FACTORS)


@dataclass(frozen=True)
class Race:
    """What a race of one client showed.

    Attributes:
        factor: The rate that won, relative to the stable one.
        gradients: The number of gradients that were computed for it.
        samples: The number of samples that they were computed on.
    """

    factor: float
    gradients: int
    samples: int


def race_batch(least_batch: int | None) -> int:
    """Return the number of samples of a step in a race.

    Args:
        least_batch: The least batch of the model; None if any will do.

    Example:
        >>> race_batch(None), race_batch(16)
        (8, 16)
    """
    return max(_BATCH, least_batch or 1)


def race_rates(
    order: Order, batches: Sequence[IntArray], stable_rate: float, steps: StepComputer
) -> Race:
    """Return with which rate the loss of a client is lowest after some steps.

    Args:
        order: The order of the round.
        batches: The rows of the batch of each step.
        stable_rate: The largest stable rate of the client, with which the race begins.
        steps: Computes steps of one client.
    """
    winner, lowest, runs = 1.0, math.inf, 0
    for factor in _FACTORS:
        losses = _losses(replace(order, learning_rate=factor * stable_rate), batches, steps)
        runs += 1
        late = losses[len(losses) // 2 :]
        reached, margin = sum(late) / len(late), _CLEARLY * abs(losses[0])
        has_learned = lowest < losses[0] - margin
        is_worse = not reached < lowest + margin  # True for NaN
        if reached < lowest - margin:
            winner, lowest = factor, reached
        elif has_learned or is_worse:
            break
    samples = sum(batch.size for batch in batches)
    return Race(winner, gradients=runs * len(batches), samples=runs * samples)


def _losses(order: Order, batches: Sequence[IntArray], steps: StepComputer) -> list[float]:
    """Return the loss of each batch before its step, from the global model on."""
    steps.begin(order, 1)
    losses = [steps.step([batch], measure=False).losses for batch in batches]
    return [float(loss) for loss in torch.cat(losses)]
