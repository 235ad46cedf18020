"""Estimates of the gain of local steps, from the path that the model takes.

The gain of a local step is the amount by which it lowers the loss. The way of a round is its local
steps times their learning rate: twice the steps at half the rate make the same way. Gains are kept
as functions of the way, so that they hold for any rate.

The local steps of a round are divided into a first half and a second half. The first half of a
round shows the gradient at the model with which the round begins. This gradient is compared with
the movement of earlier rounds:

- Its inner product with an earlier first half is the gain in the first half of a round, for each
  unit of the way.
- Its inner product with an earlier second half is the gain in the second half. It is smaller if
  clients drift apart, and negative if they overshoot.

The two factors of a product come from different batches, so noise does not look like gain. There
is one exception: a round begins by correcting the noise that the round before it left in the model.
So the gradient is not compared with the last round, only with the rounds before it. The second
round is compared with the first one all the same, and the first one with itself. Both count little.

With plain SGD, the movement is the gradient times the learning rate, so the movement shows both.
Other optimisers, clipping and FedProx's term move otherwise, so clients also send the sum of their
gradients.

The gain at a point x of the way is modelled by the curve g (1 - a x)^3 through both measurements.
It falls fast at first, because clients soon learn what is in their own data. Beyond x = 1/a it is
negative, which means that rounds should not go further.

Many steps on few samples can also diverge, if the learning rate is too large for single samples
but not for their mean. The variance of gradients is then many times as large as ever before.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.records import FloatArray
from dynamite_fl.reports import PathReport

_MEMORY = 0.8  # the factor by which the weight of a round falls with every later round
_FIRST_MIDDLE, _SECOND_MIDDLE = 0.25, 0.75  # the middle of each half, as a share of the round
_WEIGHT_OF_LAST = 0.5  # the weight of a comparison with the last round, which is biased by noise
_WEIGHT_OF_ITSELF = 0.25  # the weight of a comparison of a round with itself, likewise
_POWER = 3  # the exponent of the curve; it must be odd
_DIVERGED = 10.0  # the factor of a rise of the gradient variance that shows too many steps


def _empty() -> FloatArray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class GainEstimate:
    """The estimated gain of local steps. Recent rounds count most.

    Movements are sketches of shape (m,). Movements and gains are those of one unit of the way.
    "Earlier rounds" are all rounds except the last one, which is kept apart until the next round.

    Attributes:
        first_half: The mean movement in the first halves of earlier rounds.
        second_half: The same for the second halves.
        mean_way: The mean way of earlier rounds; of the last round if it is the first.
        newest_way: The way of the newest earlier round, likewise.
        mean_rate: The mean learning rate of earlier rounds, likewise.
        path_weight: The total weight of earlier rounds. It is 0 before the second round.
        last_first_half: The mean movement in the first half of the last round.
        last_second_half: The same for the second half.
        last_way: The way of the last round. It is 0 before the first round.
        last_rate: The learning rate of the last round.
        first_gain: The mean gain in a first half. It estimates the squared norm of the global
            gradient, without the noise of batches.
        second_gain: The mean gain in a second half.
        gain_variance: The variance of the gain in a first half from round to round.
        gain_weight: The total weight of the measured gains. It is 0 before the first round.
        largest_variance: The largest gradient variance of a round so far, averaged over clients.
        most_way: The longest way of a round, half of the shortest one that diverged.
        rate_factor: How far a step moves the model along its gradient, relative to plain SGD. With
            plain SGD it is 1; momentum and Adam make more of the same learning rate.
    """

    first_half: FloatArray = field(default_factory=_empty)
    second_half: FloatArray = field(default_factory=_empty)
    mean_way: float = 0.0
    newest_way: float = 0.0
    mean_rate: float = 0.0
    path_weight: float = 0.0
    last_first_half: FloatArray = field(default_factory=_empty)
    last_second_half: FloatArray = field(default_factory=_empty)
    last_way: float = 0.0
    last_rate: float = 0.0
    first_gain: float = 0.0
    second_gain: float = 0.0
    gain_variance: float = 0.0
    gain_weight: float = 0.0
    largest_variance: float = 0.0
    most_way: float = math.inf
    rate_factor: float = 1.0

    @property
    def standard_error(self) -> float:
        """The approximate standard error of ``first_gain``.

        A single measurement does not show its error, so the error is then assumed to be as large as
        the gain itself.
        """
        if self.gain_weight > 1:
            return math.sqrt(self.gain_variance / self.gain_weight)
        return abs(self.first_gain)

    @property
    def persistence(self) -> float:
        """The gain in a second half divided by the gain in a first half, limited to -1 and 1."""
        smallest = max(self.standard_error / 2, np.finfo(float).tiny)  # a smaller gain is noise
        return float(np.clip(self.second_gain / max(self.first_gain, smallest), -1.0, 1.0))


def update_gain(
    gain: GainEstimate, path: PathReport, local_steps: int, learning_rate: float
) -> GainEstimate:
    """Return the estimate after one more round.

    Args:
        gain: The estimate before this round.
        path: The path of this round.
        local_steps: The number of local steps of this round.
        learning_rate: eta, by which the movement of a step is divided to get its gradient.
    """
    first_half, second_half = path.first_half / learning_rate, path.second_half / learning_rate
    way = local_steps * learning_rate
    gradient = first_half if path.gradient is None else path.gradient
    after = replace(
        _include_last_round(gain),
        last_first_half=first_half,
        last_second_half=second_half,
        last_way=way,
        last_rate=learning_rate,
    )
    after = _limit_diverging_way(after, path, way)
    if path.gradient is not None:
        after = _update_rate_factor(after, first_half, path.gradient)
    # ``gain`` does not include the last round yet, so this compares with the rounds before it.
    earlier, added = (gain.first_half, gain.second_half), 1.0
    if gain.path_weight == 0:  # the first two rounds have none, so others have to do
        earlier, added = (gain.last_first_half, gain.last_second_half), _WEIGHT_OF_LAST
        if gain.last_way == 0:
            earlier, added = (first_half, second_half), _WEIGHT_OF_ITSELF
            after = replace(after, mean_way=way, newest_way=way, mean_rate=learning_rate)
    deviation = float(gradient @ earlier[0]) - gain.first_gain
    second_deviation = float(gradient @ earlier[1]) - gain.second_gain
    weight = _MEMORY * gain.gain_weight + added
    share = added / weight
    return replace(
        after,
        first_gain=gain.first_gain + share * deviation,
        second_gain=gain.second_gain + share * second_deviation,
        gain_variance=(1 - share) * (gain.gain_variance + share * deviation**2),
        gain_weight=weight,
    )


def _include_last_round(gain: GainEstimate) -> GainEstimate:
    """Return the estimate with the last round counted among the earlier rounds."""
    if gain.last_way == 0:
        return gain
    before = gain
    if gain.path_weight == 0:  # there is no earlier round, so the last round is the mean
        before = replace(
            gain,
            first_half=gain.last_first_half,
            second_half=gain.last_second_half,
            mean_way=gain.last_way,
            mean_rate=gain.last_rate,
        )
    weight = _MEMORY * gain.path_weight + 1
    return replace(
        gain,
        first_half=before.first_half + (gain.last_first_half - before.first_half) / weight,
        second_half=before.second_half + (gain.last_second_half - before.second_half) / weight,
        mean_way=before.mean_way + (gain.last_way - before.mean_way) / weight,
        newest_way=gain.last_way,
        mean_rate=before.mean_rate + (gain.last_rate - before.mean_rate) / weight,
        path_weight=weight,
    )


def _update_rate_factor(
    gain: GainEstimate, movement: FloatArray, gradient: FloatArray
) -> GainEstimate:
    """Return the estimate with the effective learning rate that one more round shows."""
    square = float(gradient @ gradient)
    if not square > 0:
        return gain
    factor = max(float(movement @ gradient) / square, 0.0)
    if gain.path_weight == 0 and gain.rate_factor == 1.0:
        return replace(gain, rate_factor=factor)
    return replace(gain, rate_factor=_MEMORY * gain.rate_factor + (1 - _MEMORY) * factor)


def _limit_diverging_way(gain: GainEstimate, path: PathReport, way: float) -> GainEstimate:
    """Return the estimate with half the way of this round as the longest, if it diverged."""
    measured = path.gradient_variance[np.isfinite(path.gradient_variance)]
    if not measured.size:
        return gain
    variance, largest = float(measured.mean()), gain.largest_variance
    if 0 < _DIVERGED * largest < variance:
        return replace(gain, most_way=min(gain.most_way, way / 2))
    return replace(gain, largest_variance=max(largest, variance))


def after_ruin(gain: GainEstimate, way: float) -> GainEstimate:
    """Return the estimate after the model was ruined, with half the way as the longest.

    Args:
        gain: The estimate before the ruin was noticed.
        way: The way of the round in which it was noticed. The round before it may have ruined the
            model, so that the shorter of both ways counts.

    Example:
        >>> after_ruin(GainEstimate(last_way=8.0), way=10.0).most_way
        4.0
    """
    shorter = min(way, gain.last_way) if gain.last_way > 0 else way
    return replace(gain, most_way=min(gain.most_way, shorter / 2))


def expected_gain(gain: GainEstimate, way: ArrayLike, rate: float) -> FloatArray:
    """Return by how much a round of this way and this learning rate lowers the loss.

    The gain at the share x of an earlier round's way is g (1 - a x)^3. At x = 1/4 it is the gain in
    a first half, and at x = 3/4 the gain in a second half, which is ``persistence`` times as large.
    Both together give a and g. The gain of a round is the integral of the curve.

    A step follows the gradient at the place where it begins, which is half a step before its
    middle. So steps of a larger rate gain more on the same way: fewer of them begin late. The
    integral begins by (rate - mean rate) / 2 earlier, or less, if the gain is uncertain: then what
    is known of the halves is mostly noise.

    One standard error is added to the gain, so that uncertain ways are tried. Otherwise a few noisy
    rounds could keep rounds short for good.

    Args:
        gain: The estimate.
        way: The ways of rounds: local steps times learning rate.
        rate: The learning rate.

    Example:
        A unit of the way gains 1 in the first half and loses 1 in the second half. So it gains
        nothing in the middle of the round.

        >>> gain = GainEstimate(
        ...     mean_way=8.0, mean_rate=1.0, first_gain=1.0, second_gain=-1.0, gain_weight=9.0
        ... )
        >>> expected_gain(gain, [2, 4, 8], 1.0)
        array([7.5, 8. , 0. ])

        If it gains 1/8 in the second half, whose cube root is 1/2, it gains nothing at a way of
        10. Two steps of twice the rate gain more than four steps on the same way.

        >>> gain = replace(gain, second_gain=0.125)
        >>> expected_gain(gain, [4, 10, 12], 1.0).round(2)
        array([4.25, 4.88, 4.87])
        >>> expected_gain(gain, [4], 2.0).round(2)
        array([5.06])
    """
    share = np.asarray(way, dtype=np.float64) / gain.mean_way
    persistence = gain.persistence
    # The root of the persistence is (1 - a 3/4) / (1 - a 1/4).
    root = math.copysign(abs(persistence) ** (1 / _POWER), persistence)
    a = (1 - root) / (_SECOND_MIDDLE - root * _FIRST_MIDDLE)
    known, error = max(gain.first_gain, 0.0), gain.standard_error
    g = (known + error) / (1 - a * _FIRST_MIDDLE) ** _POWER
    start = (gain.mean_rate - rate) / 2 / gain.mean_way
    start *= known / (known + error) if known > 0 else 0.0

    def integral(end: ArrayLike) -> FloatArray:
        """Return (1 - (1 - a x)^4) / (4 a), in a form that does not divide by a."""
        x = np.asarray(end)
        powers = sum((1 - a * x) ** power for power in range(_POWER + 1))
        return np.asarray(x * powers / (_POWER + 1))

    return g * gain.mean_way * (integral(start + share) - integral(start))
