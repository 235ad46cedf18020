"""What the paper's bound was made of, round by round, from a history."""

import warnings
from collections.abc import Mapping

from dynamite_fl.plan.bound import local_bias, power
from dynamite_fl.records import LearningRateWarning, LossGeometry
from dynamite_fl.report.history import History

_NEEDED = ("loss", "pl_constant", "divergence")
GAP, NOISE, BIAS = "loss left", "gradient noise", "local bias"


def bound_terms(history: History, learning_rate: float) -> dict[str, list[float | None]]:
    """Lemma 1's three terms by name, None in rounds that were not planned by it.

    q^tau (gap + psi) and rho h(tau)^2 follow from the estimates that the round was planned by,
    those of the line before; what is left of the bound is the gradient noise. Empty for a history
    without such estimates, as of a controller that plans by something else.

    Example:
        >>> known = {"loss": 8.0, "pl_constant": 1.0, "divergence": 0.0}
        >>> first = {"round": 1, "local_steps": 1, "bound": None, "estimates": known}
        >>> second = {"round": 2, "local_steps": 2, "bound": 2.5, "estimates": known}
        >>> bound_terms(History((first, second)), learning_rate=0.5)
        {'loss left': [None, 2.0], 'gradient noise': [None, 0.5], 'local bias': [None, 0.0]}
    """
    terms: dict[str, list[float | None]] = {GAP: [], NOISE: [], BIAS: []}
    planned_by: Mapping[str, float] = {}
    for line in history.lines:
        bound = line.get("bound")
        if bound is None or any(key not in planned_by for key in _NEEDED):
            parts: tuple[float | None, ...] = (None, None, None)
        else:
            geometry = _geometry(planned_by, learning_rate)
            gap = float(power(geometry.decay, line["local_steps"])) * geometry.loss_gap
            bias = geometry.quadratic_bound * float(local_bias(geometry, line["local_steps"])) ** 2
            parts = (gap, max(bound - gap - bias, 0.0), bias)
        for column, part in zip(terms.values(), parts, strict=True):
            column.append(part)
        planned_by = {k: value for k, value in line["estimates"].items() if value is not None}
    known = any(each is not None for each in terms[GAP])
    return terms if known else {}


def _geometry(estimates: Mapping[str, float], learning_rate: float) -> LossGeometry:
    """The estimates as ``control.estimate.loss_geometry`` has the planner take them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningRateWarning)
        return LossGeometry(
            learning_rate=learning_rate,
            quadratic_bound=estimates.get("quadratic_bound", 1 / learning_rate),
            smoothness=estimates.get("smoothness", 1 / learning_rate),
            pl_constant=max(estimates["pl_constant"], 0.0),
            divergence=estimates["divergence"],
            loss_gap=max(estimates["loss"] + estimates.get("drift", 0.0), 0.0),
        )
