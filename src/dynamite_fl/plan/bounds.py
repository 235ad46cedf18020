"""The paper's error bounds: Theorem 1, Lemma 1, and the appendix's bound for client selection.

Every function broadcasts: pass arrays of rounds, local steps or noise to bound many plans at
once. A bound with the parameters ``(geometry, rounds, local_steps, gradient_noise)`` can be the
planner's objective. The bound for client selection uses other constants; ``cohort_bound`` takes
them from the geometry.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import Fleet, FloatArray, LossGeometry

# Beyond exp(100) a bound is useless, and infinity times zero would be NaN.
_LARGEST_EXPONENT = 100.0

# An objective judges plans by their rounds, local steps and gradient noise: lower is better.
#
# It must not fall when the noise rises, because for given rounds and local steps the planner
# chooses the batch sizes of least noise (Algorithm 1). Where the planner chooses the rounds too,
# the objective must, at given noise and local steps, fall, rise, or fall and then rise in the
# rounds. All bounds in this file have both properties.
Objective = Callable[[ArrayLike, ArrayLike, ArrayLike], FloatArray]

# A bound is an objective that also takes the geometry of the loss, as its first argument.
Bound = Callable[[LossGeometry, ArrayLike, ArrayLike, ArrayLike], FloatArray]


def evaluate(
    objective: Objective, rounds: ArrayLike, local_steps: ArrayLike, gradient_noise: FloatArray
) -> FloatArray:
    """Return the objective. It is infinite where the noise is: there, no batch size fits."""
    fits = np.isfinite(gradient_noise)
    columns = np.broadcast_arrays(rounds, local_steps, gradient_noise)
    values = np.full(gradient_noise.shape, np.inf)
    values[fits] = objective(*(column[fits] for column in columns))
    if np.isnan(values).any():
        raise InvalidInput("the objective is NaN for some plans, so none of them is the best")
    return values


def gradient_noise(fleet: Fleet, batch_sizes: ArrayLike) -> FloatArray:
    """Return the variance of the averaged gradient, sum_i M_i D_i^2 / (D^2 s_i).

    Args:
        fleet: The clients.
        batch_sizes: s_i, shape (..., n).

    Example:
        >>> fleet = Fleet(
        ...     samples=[1, 3], gradient_variance=[4, 8], samples_per_second=1, comm_seconds=0
        ... )
        >>> float(gradient_noise(fleet, [2, 9]))  # 4/16/2 + 8*9/16/9
        0.625
    """
    weights = fleet.gradient_variance * fleet.share**2
    return np.asarray((weights / np.asarray(batch_sizes)).sum(axis=-1))


def local_bias(geometry: LossGeometry, local_steps: ArrayLike) -> FloatArray:
    """Compute h(tau) = delta/beta ((1 + eta beta)^tau - 1) - eta delta tau, for whole tau.

    The proof derives it from the sum eta delta sum_{z < tau} ((1 + eta beta)^z - 1), which this
    function computes: its terms are all positive, so no digits are lost when eta beta is small.

    Example:
        >>> geometry = LossGeometry(
        ...     learning_rate=0.1,
        ...     quadratic_bound=1,
        ...     smoothness=5,
        ...     pl_constant=1,
        ...     divergence=2,
        ...     loss_gap=1,
        ... )
        >>> local_bias(geometry, [1, 2, 3])  # 0.1 * 2 * (0, 0.5, 0.5 + 1.25)
        array([0.  , 0.1 , 0.35])
    """
    eta, beta, delta = geometry.learning_rate, geometry.smoothness, geometry.divergence
    tau = np.asarray(local_steps)
    if not np.issubdtype(tau.dtype, np.integer) or tau.min(initial=1) < 1:
        raise InvalidInput("local_steps must be whole numbers, 1 or more")
    exponents = np.arange(tau.max(initial=1)) * np.log1p(eta * beta)
    growth = np.cumsum(np.expm1(np.minimum(exponents, _LARGEST_EXPONENT)))
    return np.asarray(eta * delta * growth[tau - 1])


def geometric_sum(decay: float, terms: ArrayLike) -> FloatArray:
    """Compute (1 - q^n) / (1 - q) = 1 + q + ... + q^(n-1) for q = 1 - decay.

    The result is exact for q = 0 and q = 1 too.

    Example:
        >>> [float(geometric_sum(decay, 10)) for decay in (0.0, 1e-17, 1.0)]
        [10.0, 10.0, 1.0]
    """
    n = np.asarray(terms, dtype=np.float64)
    if decay == 0.0:
        return n.copy()
    return np.asarray(-np.expm1(_log_contraction(decay) * n) / decay)


def power(decay: float, exponent: ArrayLike) -> FloatArray:
    """Compute q^n for q = 1 - decay. A tiny decay is not lost to rounding."""
    return np.asarray(np.exp(_log_contraction(decay) * np.asarray(exponent, dtype=np.float64)))


def _log_contraction(decay: float) -> float:
    return float(np.log1p(-decay)) if decay < 1.0 else -np.inf


def cumulative_bound(
    geometry: LossGeometry, rounds: ArrayLike, local_steps: ArrayLike, gradient_noise: ArrayLike
) -> FloatArray:
    """Bound the loss gap after K rounds of tau local steps: Theorem 1 as printed.

    q^(K tau) G + (1 - q^K)/(1 - q) (beta eta^2/2 (1 - q^tau)/(1 - q) noise + rho h(tau)^2)

    Example:
        >>> geometry = LossGeometry(
        ...     learning_rate=0.5,
        ...     quadratic_bound=1,
        ...     smoothness=1,
        ...     pl_constant=1,
        ...     divergence=0,
        ...     loss_gap=8,
        ... )
        >>> float(cumulative_bound(geometry, 2, 1, 0.8))  # 8/4 + 1.5 * 0.125 * 0.8
        2.15
    """
    k, tau = np.asarray(rounds, dtype=np.float64), np.asarray(local_steps)
    start = power(geometry.decay, k * tau) * geometry.loss_gap
    return start + geometric_sum(geometry.decay, k) * _round_error(geometry, tau, gradient_noise)


def tight_cumulative_bound(
    geometry: LossGeometry, rounds: ArrayLike, local_steps: ArrayLike, gradient_noise: ArrayLike
) -> FloatArray:
    """Bound the loss gap as Theorem 1 does before the last step of its proof.

    It has the exact factor (1 - q^(K tau))/(1 - q^tau). The printed theorem has the larger
    (1 - q^K)/(1 - q). The two are equal at tau = 1.
    """
    k, tau = np.asarray(rounds, dtype=np.float64), np.asarray(local_steps)
    start = power(geometry.decay, k * tau) * geometry.loss_gap
    factor = geometric_sum(geometry.decay, k * tau) / geometric_sum(geometry.decay, tau)
    return start + factor * _round_error(geometry, tau, gradient_noise)


def marginal_bound(
    geometry: LossGeometry,
    rounds: ArrayLike,  # noqa: ARG001  every bound has this parameter
    local_steps: ArrayLike,
    gradient_noise: ArrayLike,
    *,
    drift: float = 0.0,
) -> FloatArray:
    """Bound the loss gap after one more round: Lemma 1. The remaining rounds do not matter.

    q^tau (gap + psi) + beta eta^2/2 (1 - q^tau)/(1 - q) noise + rho h(tau)^2, where the drift psi
    is the rise of the loss through newly arrived data.

    Example:
        >>> geometry = LossGeometry(
        ...     learning_rate=0.5,
        ...     quadratic_bound=1,
        ...     smoothness=1,
        ...     pl_constant=1,
        ...     divergence=0,
        ...     loss_gap=8,
        ... )
        >>> float(marginal_bound(geometry, 1, 2, 0.0, drift=4.0))  # (8 + 4)/4
        3.0
    """
    tau = np.asarray(local_steps)
    start = power(geometry.decay, tau) * (geometry.loss_gap + drift)
    return start + _round_error(geometry, tau, gradient_noise)


def _round_error(geometry: LossGeometry, tau: ArrayLike, noise: ArrayLike) -> FloatArray:
    """Compute the error of one round: beta eta^2/2 (1 - q^tau)/(1 - q) noise + rho h(tau)^2."""
    eta, beta, rho = geometry.learning_rate, geometry.smoothness, geometry.quadratic_bound
    variance = beta * eta**2 / 2 * geometric_sum(geometry.decay, tau) * np.asarray(noise)
    return np.asarray(variance + rho * local_bias(geometry, tau) ** 2)


def client_selection_bound(
    rounds: ArrayLike,
    local_steps: ArrayLike,
    gradient_noise: ArrayLike,
    *,
    cohort: ArrayLike,
    smoothness: float,
    strong_convexity: float,
    gradient_norm: float,
    heterogeneity: float,
    start_distance: float,
) -> FloatArray:
    """Bound the loss gap when clients are drawn each round with replacement: the appendix's bound.

    It makes the assumptions of Li et al. (2020), "On the Convergence of FedAvg on Non-IID Data":
    strongly convex losses and a learning rate that falls as 2 / (mu (gamma + t)).

    kappa/(gamma + K tau - 1) (2 (B + C)/mu + mu gamma/2 |w(0) - w*|^2), with kappa = L/mu,
    gamma = max(8 kappa, tau), B = noise + 6 L Gamma + 8 (tau - 1)^2 G^2 and
    C = 4/cohort tau^2 G^2. The paper prints 4/K here, where K is its number of rounds. In Li et
    al., K is the number of drawn clients (docs/paper.md).

    Args:
        rounds: K, the number of rounds.
        local_steps: tau, the local steps of a round.
        gradient_noise: sum_i p_i^2 sigma_i^2 / s_i, see ``gradient_noise``.
        cohort: The number of clients drawn in a round.
        smoothness: L, the smoothness of every client's loss.
        strong_convexity: mu, the strong convexity of every client's loss.
        gradient_norm: G, the largest norm of a stochastic gradient.
        heterogeneity: Gamma = F* - sum_i p_i F_i*.
        start_distance: |w(0) - w*|, the distance of the first model from the optimum.

    Example:
        >>> float(
        ...     client_selection_bound(
        ...         10,
        ...         1,
        ...         1.0,
        ...         cohort=4,
        ...         smoothness=1,
        ...         strong_convexity=1,
        ...         gradient_norm=1,
        ...         heterogeneity=0,
        ...         start_distance=1,
        ...     )
        ... )
        0.47058823529411764
    """
    k, tau = np.asarray(rounds, dtype=np.float64), np.asarray(local_steps, dtype=np.float64)
    big_l, mu, big_g = smoothness, strong_convexity, gradient_norm
    kappa = big_l / mu
    gamma = np.maximum(8 * kappa, tau)
    b = np.asarray(gradient_noise) + 6 * big_l * heterogeneity + 8 * (tau - 1) ** 2 * big_g**2
    c = 4 / np.asarray(cohort) * tau**2 * big_g**2
    error = 2 * (b + c) / mu + mu * gamma / 2 * start_distance**2
    return np.asarray(kappa / (gamma + k * tau - 1) * error)


def cohort_bound(
    geometry: LossGeometry,
    rounds: ArrayLike,
    local_steps: ArrayLike,
    gradient_noise: ArrayLike,
    *,
    cohort: int,
    gradient_norm: float,
) -> FloatArray:
    """Bound the loss gap when a cohort is drawn each round, with the constants of Assumptions 1-5.

    It is ``client_selection_bound`` with L = beta and mu = c. Strong convexity then bounds the two
    constants that nobody can measure: |w(0) - w*|^2 <= 2/mu (F(w(0)) - F*), and
    Gamma = sum_i p_i (F_i(w*) - F_i*) <= sum_i p_i |dF_i(w*)|^2/(2 mu) = delta^2/(2 mu).

    Args:
        geometry: The constants of the loss. Its PL constant must be above 0.
        rounds: K, the number of rounds.
        local_steps: tau, the local steps of a round.
        gradient_noise: sum_i p_i^2 sigma_i^2 / s_i, see ``gradient_noise``.
        cohort: The number of clients drawn in a round.
        gradient_norm: G, the largest norm of a stochastic gradient.
    """
    mu = geometry.pl_constant
    return client_selection_bound(
        rounds,
        local_steps,
        gradient_noise,
        cohort=cohort,
        smoothness=max(geometry.smoothness, mu),  # L is never below mu
        strong_convexity=mu,
        gradient_norm=gradient_norm,
        heterogeneity=geometry.divergence**2 / (2 * mu),
        start_distance=float(np.sqrt(2 * geometry.loss_gap / mu)),
    )
