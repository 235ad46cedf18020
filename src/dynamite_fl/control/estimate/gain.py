"""Estimates of the gain of local steps, from the path that the model takes.

The local steps of a round are divided into a first half and a second half. The first half of a
later round shows in which direction the loss falls there. So its inner product with the first
half of an earlier round is the gain of a step in the first half, and its inner product with the
second half of an earlier round is the gain of a step in the second half. The latter is small if
clients drift apart, and negative if they overshoot. Rounds draw their batches independently, so
noise does not look like gain. However, the noise that a round leaves in the model is corrected by
the next round first, against the direction of the last one. So a first half is not compared with
the last round, only with the rounds before it.

The gain of the t-th of tau steps is modelled by the curve (1 - a t)^3 through both measurements.
It falls fast at first, because clients soon learn what is in their own data. Beyond t = 1/a it is
negative, which means that rounds should end there.

Many steps on few samples can also diverge, if the learning rate is too large for single samples
but not for their mean. The variance of gradients is then many times as large as ever before.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.records import FloatArray
from dynamite_fl.reports import PathReport

_MEMORY = 0.8  # the weight of a round one round later
_FIRST_MIDDLE, _SECOND_MIDDLE = 0.25, 0.75  # the middle of each half, as a share of the round
_POWER = 3  # the exponent of the curve; it must be odd
_DIVERGED = 10.0  # the rise of the gradient variance that shows too many steps


def _empty() -> FloatArray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class GainEstimate:
    """The estimated gain of local steps. Recent rounds count most.

    Gradients are sketches of shape (m,), and gains are for a learning rate of 1.

    Attributes:
        first_half: The mean gradient of a step in the first half of earlier rounds.
        second_half: The same for the second half.
        mean_steps: The mean number of local steps of these rounds.
        newest_steps: The number of local steps of the newest of these rounds.
        path_weight: The weight of these rounds. It is 0 before the second round.
        last_first_half: The mean gradient of the first half of the last round, which is not part of
            the means yet.
        last_second_half: The same for the second half.
        last_steps: The number of local steps of the last round. It is 0 before the first round.
        first_gain: The mean gain of a step in a first half: the squared norm of the global
            gradient, without noise.
        second_gain: The same for a second half.
        gain_variance: The variance of ``first_gain`` between single rounds.
        gain_weight: The weight of these gains. It is 0 before the third round.
        largest_variance: The largest gradient variance of a round so far, averaged over clients.
        most_steps: Half of the smallest number of local steps that diverged.
    """

    first_half: FloatArray = field(default_factory=_empty)
    second_half: FloatArray = field(default_factory=_empty)
    mean_steps: float = 1.0
    newest_steps: float = 1.0
    path_weight: float = 0.0
    last_first_half: FloatArray = field(default_factory=_empty)
    last_second_half: FloatArray = field(default_factory=_empty)
    last_steps: int = 0
    first_gain: float = 0.0
    second_gain: float = 0.0
    gain_variance: float = 0.0
    gain_weight: float = 0.0
    largest_variance: float = 0.0
    most_steps: float = math.inf

    @property
    def standard_error(self) -> float:
        """The approximate standard error of ``first_gain``: all of it while it is unknown."""
        if self.gain_weight > 1:
            return math.sqrt(self.gain_variance / self.gain_weight)
        return abs(self.first_gain)

    @property
    def persistence(self) -> float:
        """The gain of a step in a second half, relative to a first half, from -1 to 1."""
        least = max(self.standard_error / 2, np.finfo(float).tiny)  # smaller gains are noise
        return float(np.clip(self.second_gain / max(self.first_gain, least), -1.0, 1.0))


def update_gain(
    gain: GainEstimate, path: PathReport, local_steps: int, learning_rate: float
) -> GainEstimate:
    """Return the estimate after one more round."""
    first_half, second_half = path.first_half / learning_rate, path.second_half / learning_rate
    after = replace(
        _include_last_round(gain),
        last_first_half=first_half,
        last_second_half=second_half,
        last_steps=local_steps,
    )
    after = _limit_diverging_steps(after, path, local_steps)
    if gain.path_weight == 0:
        return after
    weight = _MEMORY * gain.gain_weight + 1
    deviation = float(first_half @ gain.first_half) - gain.first_gain
    second_deviation = float(first_half @ gain.second_half) - gain.second_gain
    return replace(
        after,
        first_gain=gain.first_gain + deviation / weight,
        second_gain=gain.second_gain + second_deviation / weight,
        gain_variance=(1 - 1 / weight) * (gain.gain_variance + deviation**2 / weight),
        gain_weight=weight,
    )


def _limit_diverging_steps(gain: GainEstimate, path: PathReport, local_steps: int) -> GainEstimate:
    """Allow half the local steps from now on if those of this round diverged."""
    measured = path.gradient_variance[np.isfinite(path.gradient_variance)]
    if not measured.size:
        return gain
    variance, largest = float(measured.mean()), gain.largest_variance
    if 0 < _DIVERGED * largest < variance:
        return replace(gain, most_steps=min(gain.most_steps, local_steps / 2))
    return replace(gain, largest_variance=max(largest, variance))


def _include_last_round(gain: GainEstimate) -> GainEstimate:
    """Return the estimate with the last round included in the mean path."""
    if gain.last_steps == 0:
        return gain
    before = gain
    if gain.path_weight == 0:  # the first round is the mean
        before = replace(
            gain,
            first_half=gain.last_first_half,
            second_half=gain.last_second_half,
            mean_steps=float(gain.last_steps),
        )
    weight = _MEMORY * gain.path_weight + 1
    return replace(
        gain,
        first_half=before.first_half + (gain.last_first_half - before.first_half) / weight,
        second_half=before.second_half + (gain.last_second_half - before.second_half) / weight,
        mean_steps=before.mean_steps + (gain.last_steps - before.mean_steps) / weight,
        newest_steps=float(gain.last_steps),
        path_weight=weight,
    )


def expected_gain(gain: GainEstimate, local_steps: ArrayLike) -> FloatArray:
    """Return by how much a round of so many local steps lowers the loss, at a learning rate of 1.

    One standard error is added to the gain of a step, so that uncertain numbers of steps are tried.

    Example:
        A step in the first half gains 1 and a step in the second half loses 1. So a step in the
        middle of the round gains nothing.

        >>> gain = GainEstimate(mean_steps=8.0, first_gain=1.0, second_gain=-1.0, gain_weight=9.0)
        >>> expected_gain(gain, [2, 4, 8])
        array([7.5, 8. , 0. ])

        If a step in the second half gains 1/8, whose cube root is 1/2, steps gain nothing after
        the tenth.

        >>> gain = replace(gain, second_gain=0.125)
        >>> expected_gain(gain, [4, 10, 12]).round(2)
        array([4.25, 4.88, 4.87])
    """
    share = np.asarray(local_steps, dtype=np.float64) / gain.mean_steps
    q = gain.persistence if gain.mean_steps > 1 else 1.0  # a single step has no second half
    root = math.copysign(abs(q) ** (1 / _POWER), q)
    fall = (1 - root) / (_SECOND_MIDDLE - root * _FIRST_MIDDLE)
    first_step = max(gain.first_gain, 0.0) + gain.standard_error
    first_step /= (1 - fall * _FIRST_MIDDLE) ** _POWER
    left = 1 - fall * share
    integral = share * sum(left**power for power in range(_POWER + 1)) / (_POWER + 1)
    return np.asarray(first_step * gain.mean_steps * integral)
