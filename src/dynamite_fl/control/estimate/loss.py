"""Estimates of the constants of the loss, from the clients' probes, as in Algorithm 2.

Each constant is the mean of the values that the clients of the round measured, weighted by their
samples. If a client could not measure a value, its last measurement is used.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynamite_fl.control.estimate.speed import fill_with_median
from dynamite_fl.records import Fleet, FloatArray, LearningRateWarning, LossGeometry
from dynamite_fl.reports import Probe, RoundReport

_LEAST_SMOOTHNESS = 1e-5


@dataclass(frozen=True, eq=False)
class LossEstimates:
    """The estimated constants of the loss. NaN means unknown.

    Attributes:
        loss: F at the last probed model. With F* = 0, it is the loss gap.
        quadratic_bound: rho of Assumption 1.
        lipschitz: rho of Wang et al.
        smoothness: beta of Assumption 2.
        pl_constant: c of Assumption 3.
        divergence: delta of Assumption 5.
        drift: psi, the change of the loss through the last arrivals. NaN if data does not stream.
        latest: The last measurements of every client, columns of shape (n,).
    """

    loss: float
    quadratic_bound: float
    lipschitz: float
    smoothness: float
    pl_constant: float
    divergence: float
    drift: float
    latest: Probe


_MEANS = (
    "loss",
    "quadratic_bound",
    "lipschitz",
    "smoothness",
    "pl_constant",
    "divergence",
    "drift",
)


def nothing_measured(clients: int) -> LossEstimates:
    """Return the estimates before the first probe of so many clients."""
    nan = np.full(clients, np.nan)
    latest = Probe(nan, nan, nan, nan, nan, nan, nan, nan)
    return LossEstimates(**dict.fromkeys(_MEANS, math.nan), latest=latest)


def update_loss(
    estimates: LossEstimates, report: RoundReport, most_quadratic_bound: float = math.inf
) -> LossEstimates:
    """Return the estimates after one more round. A round without a probe changes nothing.

    A client without a measured loss did not report, so it has no weight in the means. A mean
    without any value stays as it was. Smoothness is at least 1e-5.

    Args:
        estimates: The estimates so far.
        report: What the round showed.
        most_quadratic_bound: The largest rho_i of a client. Assumption 1 holds for no loss with a
            slope, so the measured values grow without limit as models come close to each other.

    Example:
        >>> both = np.array([1.0, 2.0])
        >>> report = RoundReport(
        ...     round_index=2,
        ...     clients=np.array([0, 1]),
        ...     local_steps=1,
        ...     learning_rate=0.1,
        ...     batch_sizes=np.array([8, 8]),
        ...     present=np.array([True, True]),
        ...     samples=np.array([100.0, 300.0]),
        ...     step_seconds=both,
        ...     comm_seconds=both,
        ...     probe=Probe(both, both, both, np.array([np.nan, 4.0]), both, both, both, both),
        ... )
        >>> estimates = update_loss(nothing_measured(2), report)
        >>> estimates.loss, estimates.smoothness  # (100 * 1 + 300 * 2) / 400; one measurement
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
    clients, samples = report.clients[reported], report.samples[reported]
    means = {
        name: _mean(latest[name][clients], samples, getattr(estimates, name)) for name in _MEANS
    }
    return LossEstimates(**means, latest=Probe(**latest))


def gradient_variance(estimates: LossEstimates, first_guess: FloatArray) -> FloatArray:
    """Return M_i of every client, shape (n,).

    A client that did not measure M_i has the median of the others, or the first guess if there are
    none.
    """
    measured = estimates.latest.gradient_variance
    known = np.isfinite(measured)
    return fill_with_median(np.where(known, measured, first_guess), known)


def with_measured_variance(fleet: Fleet, estimates: LossEstimates) -> Fleet:
    """Return the fleet with the measured gradient variances."""
    variance = gradient_variance(estimates, fleet.gradient_variance)
    return fleet.with_columns(gradient_variance=variance)


def gradient_norm(estimates: LossEstimates) -> float:
    """Return G, the largest gradient norm of a client: |g_i|^2 = 2 c_i F_i. NaN if unknown."""
    squares = 2 * estimates.latest.pl_constant * estimates.latest.loss
    return float(np.sqrt(np.max(squares, where=np.isfinite(squares), initial=-np.inf)))


def known_means(estimates: LossEstimates) -> dict[str, float]:
    """Return the known constants by name, and the mean of the measured M_i."""
    means = {name: getattr(estimates, name) for name in _MEANS}
    variance = estimates.latest.gradient_variance
    measured = variance[np.isfinite(variance)]
    means["gradient_variance"] = float(measured.mean()) if measured.size else math.nan
    return {name: value for name, value in means.items() if not math.isnan(value)}


def loss_geometry(means: Mapping[str, float], learning_rate: float) -> LossGeometry | None:
    """Return the geometry for the planner, or None while loss, slope or divergence is unknown.

    The loss gap is Lemma 1's F^(k-1) - F* + psi^k with F* = 0. Smoothness and rho can only be
    measured if models differ, which those of a single client never do. If they are unknown, both
    are 1/eta, the largest smoothness for which the bounds are proven.

    Args:
        means: The known constants by name, as ``known_means`` returns them.
        learning_rate: eta, the step size of local steps.

    Example:
        >>> known = {"loss": 2.0, "pl_constant": 0.5, "divergence": 1.0, "drift": 0.25}
        >>> geometry = loss_geometry(known, learning_rate=0.1)
        >>> geometry.loss_gap, geometry.smoothness
        (2.25, 10.0)
    """
    if any(name not in means for name in ("loss", "pl_constant", "divergence")):
        return None
    with warnings.catch_warnings():  # else there would be a warning in every round
        warnings.simplefilter("ignore", LearningRateWarning)
        return LossGeometry(
            learning_rate=learning_rate,
            quadratic_bound=means.get("quadratic_bound", 1 / learning_rate),
            smoothness=means.get("smoothness", 1 / learning_rate),
            pl_constant=max(means["pl_constant"], 0.0),
            divergence=means["divergence"],
            loss_gap=max(means["loss"] + means.get("drift", 0.0), 0.0),
        )


def _mean(values: FloatArray, samples: FloatArray, before: float) -> float:
    known = np.isfinite(values)
    if not known.any():
        return before
    return float(np.average(values[known], weights=samples[known]))
