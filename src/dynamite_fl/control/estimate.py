"""How does the loss behave? What clients measured, as Algorithm 2 puts it together.

The estimate of each constant is the mean of what the clients of this round measured, weighted
by their data. Where a client could not measure, what it measured last stands in.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np

from dynamite_fl.control.system import filled
from dynamite_fl.records import Fleet, FloatArray, LearningRateWarning, LossGeometry
from dynamite_fl.reports import Probe, RoundReport

_LEAST_SMOOTHNESS = 1e-5


@dataclass(frozen=True, eq=False)
class LossEstimates:
    """What is known of the loss; NaN where nothing is.

    Attributes:
        loss: F at the last probed model, with F* = 0 the loss gap.
        quadratic_bound: rho of Assumption 1.
        lipschitz: rho of Wang et al.
        smoothness: beta.
        pl_constant: c.
        divergence: delta.
        drift: psi, by how much the last arrivals changed the loss; NaN where data does not
            stream.
        latest: What each client of the fleet measured last, columns of shape (n,).
        first_variance: M_i as guessed before anyone measured, (n,).
    """

    loss: float
    quadratic_bound: float
    lipschitz: float
    smoothness: float
    pl_constant: float
    divergence: float
    drift: float
    latest: Probe
    first_variance: FloatArray


_MEANS = (
    "loss",
    "quadratic_bound",
    "lipschitz",
    "smoothness",
    "pl_constant",
    "divergence",
    "drift",
)


def nothing_measured(fleet: Fleet) -> LossEstimates:
    """The estimates before the first probe."""
    nan = np.full(len(fleet), np.nan)
    return LossEstimates(
        **dict.fromkeys(_MEANS, math.nan),
        latest=Probe(nan, nan, nan, nan, nan, nan, nan, nan),
        first_variance=fleet.gradient_variance,
    )


def observe(
    estimates: LossEstimates, report: RoundReport, most_quadratic_bound: float = math.inf
) -> LossEstimates:
    """The estimates after one more round; as they were if it had no probe.

    Clients whose loss is missing did not report and have no say in the means. A mean that
    nobody has a value for stays as it was. Each rho_i is capped: Assumption 1 holds for no
    loss that has a slope, and what is measured grows without end as models come close.
    Smoothness is at least 1e-5.

    Example:
        >>> fleet = Fleet(
        ...     samples=[100, 300], gradient_variance=1, samples_per_second=1, comm_seconds=0
        ... )
        >>> both = np.array([1.0, 2.0])
        >>> report = RoundReport(
        ...     round_index=2,
        ...     clients=np.array([0, 1]),
        ...     local_steps=1,
        ...     batch_sizes=np.array([8, 8]),
        ...     present=np.array([True, True]),
        ...     samples=np.array([100.0, 300.0]),
        ...     step_seconds=both,
        ...     comm_seconds=both,
        ...     probe=Probe(both, both, both, np.array([np.nan, 4.0]), both, both, both, both),
        ... )
        >>> estimates = observe(nothing_measured(fleet), report)
        >>> estimates.loss, estimates.smoothness  # (100 * 1 + 300 * 2)/400; only one measured
        (1.75, 4.0)
    """
    if report.probe is None:
        return estimates
    latest = {}
    for name, measured in vars(report.probe).items():
        usable = np.isfinite(measured)
        latest[name] = getattr(estimates.latest, name).copy()
        latest[name][report.clients[usable]] = measured[usable]
    latest["quadratic_bound"] = np.minimum(latest["quadratic_bound"], most_quadratic_bound)
    latest["smoothness"] = np.maximum(latest["smoothness"], _LEAST_SMOOTHNESS)
    reported = np.isfinite(report.probe.loss)
    rows, data = report.clients[reported], report.samples[reported]
    means = {name: _mean(latest[name][rows], data, getattr(estimates, name)) for name in _MEANS}
    return LossEstimates(**means, latest=Probe(**latest), first_variance=estimates.first_variance)


def gradient_variance(estimates: LossEstimates) -> FloatArray:
    """M_i of every client: measured, else the median of those, else the first guess, (n,)."""
    measured = estimates.latest.gradient_variance
    seen = np.isfinite(measured)
    return filled(np.where(seen, measured, estimates.first_variance), seen)


def loss_geometry(estimates: LossEstimates, learning_rate: float) -> LossGeometry | None:
    """The estimates as the planner takes them; None before loss, slope and divergence are known.

    The loss gap is Lemma 1's F^(k-1) - F* + psi^k with F* = 0. Smoothness and rho need models
    that are apart, which those of a single client never are. Unmeasured, both are 1/eta: the
    largest smoothness for which the bounds are proven.
    """
    known = (estimates.loss, estimates.pl_constant, estimates.divergence)
    if any(math.isnan(value) for value in known):
        return None
    with warnings.catch_warnings():  # one a round would be a flood
        warnings.simplefilter("ignore", LearningRateWarning)
        return LossGeometry(
            learning_rate=learning_rate,
            quadratic_bound=_or(estimates.quadratic_bound, 1 / learning_rate),
            smoothness=_or(estimates.smoothness, 1 / learning_rate),
            pl_constant=max(estimates.pl_constant, 0.0),
            divergence=estimates.divergence,
            loss_gap=max(estimates.loss + _or(estimates.drift, 0.0), 0.0),
        )


def known_means(estimates: LossEstimates) -> dict[str, float]:
    """What is known of the loss by name, and the mean M_i of those who measured it."""
    found = {name: getattr(estimates, name) for name in _MEANS}
    variance = estimates.latest.gradient_variance
    measured = variance[np.isfinite(variance)]
    found["gradient_variance"] = float(measured.mean()) if measured.size else math.nan
    return {name: value for name, value in found.items() if not math.isnan(value)}


def _mean(values: FloatArray, data: FloatArray, before: float) -> float:
    known = np.isfinite(values)
    if not known.any():
        return before
    return float(np.average(values[known], weights=data[known]))


def _or(value: float, otherwise: float) -> float:
    return otherwise if math.isnan(value) else value
