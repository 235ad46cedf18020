"""The terms of the paper's bound in every round, from a history."""

from collections.abc import Mapping

from dynamite_fl.control.estimate.loss import loss_geometry
from dynamite_fl.plan.bounds import local_bias, power
from dynamite_fl.training.history import History

GAP, NOISE, BIAS = "loss left", "gradient noise", "local bias"


def bound_terms(history: History, learning_rate: float) -> dict[str, list[float | None]]:
    """Return the three terms of Lemma 1 by name, with None in rounds not planned by it.

    q^tau (gap + psi) and rho h(tau)^2 follow from the estimates that the round was planned with,
    which are those of the line before. The rest of the bound is the gradient noise. The result is
    empty for a history without such estimates, which other controllers write.

    Args:
        history: The rounds of a training.
        learning_rate: The learning rate of rounds that do not have their own.

    Example:
        >>> from dataclasses import replace
        >>> from dynamite_fl.training.round_record import RoundRecord
        >>> known = {"loss": 8.0, "pl_constant": 1.0, "divergence": 0.0}
        >>> first = RoundRecord(
        ...     round=1, seconds=1, cost=1, local_steps=1, batch_mean=8, estimates=known
        ... )
        >>> second = replace(first, round=2, local_steps=2, bound=2.5)
        >>> bound_terms(History((first, second)), learning_rate=0.5)
        {'loss left': [None, 2.0], 'gradient noise': [None, 0.5], 'local bias': [None, 0.0]}
    """
    terms: dict[str, list[float | None]] = {GAP: [], NOISE: [], BIAS: []}
    estimates: Mapping[str, float] = {}  # those of the round before
    rate = learning_rate  # likewise
    for record in history:
        values = _terms(record.local_steps, record.bound, estimates, rate)
        for column, value in zip(terms.values(), values, strict=True):
            column.append(value)
        estimates = {name: value for name, value in record.estimates.items() if value is not None}
        rate = record.learning_rate or learning_rate
    known = any(value is not None for value in terms[GAP])
    return terms if known else {}


def _terms(
    local_steps: int, bound: float | None, estimates: Mapping[str, float], learning_rate: float
) -> tuple[float | None, ...]:
    """Return gap, noise and bias of one round."""
    geometry = loss_geometry(estimates, learning_rate)
    if bound is None or geometry is None:
        return None, None, None
    gap = float(power(geometry.decay, local_steps)) * geometry.loss_gap
    bias = geometry.quadratic_bound * float(local_bias(geometry, local_steps)) ** 2
    return gap, max(bound - gap - bias, 0.0), bias
