"""The estimate of the largest stable learning rate, from the trial steps of clients.

A client tries how far a step can go before the slope of its batch's loss has fallen by half
(``client/rate_trial.py``). With plain SGD and a curvature h of the loss along the step, that is at
the rate 0.5 / h. The estimate is 0.5 / h for the mean curvature of all clients, in which a client
counts by its steepness: where gradients are large, steps are long. It follows a larger rate slowly.

It does not follow a smaller rate while steps of the known one end before their batch's loss is
least, which is where the slope has fallen to nothing. A training at a constant rate bends its loss
more and more until the rate is at the edge of stability, and stays there by itself (Cohen et al.,
ICLR 2021; Andreyev and Beneventano, arXiv 2412.20553, for batches). A rate that kept its distance
would fall without end. If steps end beyond that point, the estimate falls at once, because too
large a rate does more harm than too small a rate.

Deep networks may learn best at rates far beyond what curvature allows: their first model is steep,
and large steps lead to where the loss bends less. Some clients find that out by a race in the first
round (``client/rate_race.py``). If larger rates win in most of them, the median of the winners is
the estimate, and curvature does not change it any more.

A rate at which the averaged model was ruined is remembered, and no later rate comes near it.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dynamite_fl.records import FloatArray
from dynamite_fl.reports import STABLE_FALL, RoundReport

_MOST_FALL = 1.0  # the share by which slopes may fall before the estimate is lowered
_MEMORY_OF_LARGER = 0.2  # the weight of earlier rounds beside a smaller rate
_MEMORY_OF_SMALLER = 0.8  # the weight of earlier rounds beside a larger rate
_AFTER_RUIN = 0.25  # the next rate, relative to one that has ruined the model
_BELOW_RUIN = 0.5  # the largest later rate, likewise


@dataclass(frozen=True)
class RateEstimate:
    """What is known about stable learning rates.

    Attributes:
        log_stable: The logarithm of the largest stable rate; NaN before the first measurement.
        ceiling: The largest rate that is allowed after a rate has ruined the model.
        is_raced: Whether the rate has won a race against what curvature allows.
    """

    log_stable: float = math.nan
    ceiling: float = math.inf
    is_raced: bool = False

    @property
    def is_known(self) -> bool:
        """Whether a stable rate was measured."""
        return math.isfinite(self.log_stable)

    @property
    def stable(self) -> float:
        """The largest stable rate; NaN before the first measurement."""
        return min(math.exp(self.log_stable), self.ceiling) if self.is_known else math.nan


def update_rate(estimate: RateEstimate, report: RoundReport) -> RateEstimate:
    """Return the estimate after one more round."""
    if not estimate.is_raced:
        estimate = with_measured(estimate, report.stable_rates, report.steepness)
        estimate = with_raced(estimate, report.stable_rates, report.race_factors)
    if report.ruining_rate is None:
        return estimate
    return after_ruin(estimate, report.ruining_rate)


def with_measured(
    estimate: RateEstimate, stable_rates: FloatArray, steepness: FloatArray
) -> RateEstimate:
    """Return the estimate with the trials of some clients, NaN for those who tried nothing.

    Example:
        The second client is three times as steep, and its curvature counts three times.

        >>> estimate = with_measured(RateEstimate(), np.array([1.0, 0.25]), np.array([1.0, 3.0]))
        >>> round(1 / estimate.stable, 3)  # (1 * 1 + 3 * 4) / 4
        3.25
    """
    usable = np.isfinite(stable_rates) & np.isfinite(steepness)
    usable &= (stable_rates > 0) & (steepness > 0)
    if not usable.any():
        return estimate
    # The largest weight is 1, so that no product overflows.
    weights = steepness[usable] / steepness[usable].max()
    measured = -math.log(np.average(1 / stable_rates[usable], weights=weights))
    return replace(estimate, log_stable=_follow(estimate, measured))


def with_raced(
    estimate: RateEstimate, stable_rates: FloatArray, race_factors: FloatArray
) -> RateEstimate:
    """Return the estimate with the races of some clients, NaN for those who did not race.

    Example:
        Two of three clients learn fastest at rates beyond what their curvature allows.

        >>> stable, factors = np.array([0.01, 0.02, 0.01]), np.array([1, 8, 32])
        >>> estimate = with_raced(RateEstimate(), stable, factors)
        >>> round(estimate.stable, 3), estimate.is_raced
        (0.16, True)
    """
    if not np.isfinite(race_factors).any():
        return estimate
    usable = np.isfinite(race_factors) & np.isfinite(stable_rates) & (stable_rates > 0)
    factors, stable = race_factors[usable], stable_rates[usable]
    if not usable.any() or _lower_median(factors) <= 1:
        return estimate
    return replace(estimate, log_stable=math.log(_lower_median(factors * stable)), is_raced=True)


def _lower_median(values: FloatArray) -> float:
    return float(np.sort(values)[(values.size - 1) // 2])


def _follow(estimate: RateEstimate, measured: float) -> float:
    """Return the logarithm of the largest stable rate after one more measurement of it."""
    if not estimate.is_known:
        return measured
    known, most = estimate.log_stable, measured + math.log(_MOST_FALL / STABLE_FALL)
    if most < known:
        return _MEMORY_OF_LARGER * known + (1 - _MEMORY_OF_LARGER) * most
    if measured > known:
        return _MEMORY_OF_SMALLER * known + (1 - _MEMORY_OF_SMALLER) * measured
    return known


def after_ruin(estimate: RateEstimate, rate: float) -> RateEstimate:
    """Return the estimate after a rate has ruined the model.

    Example:
        >>> estimate = after_ruin(RateEstimate(log_stable=math.log(0.8)), rate=0.8)
        >>> round(estimate.stable, 3), estimate.ceiling
        (0.2, 0.4)
    """
    log_stable = math.log(_AFTER_RUIN * rate)
    if estimate.is_known:
        log_stable = min(log_stable, estimate.log_stable)
    ceiling = min(estimate.ceiling, _BELOW_RUIN * rate)
    return replace(estimate, log_stable=log_stable, ceiling=ceiling)
