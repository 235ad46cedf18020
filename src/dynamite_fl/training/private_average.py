"""The Gaussian mechanism at the server: from local models to a noisy average.

The average is w - (sum_i clip(w - w_i) + noise) / m with the clip norm C, noise of the standard
deviation z C, and the expected number m of clients in a round. All clients weigh the same, and m
does not depend on who is present, so that one client changes the sum by at most C
(docs/privacy.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.private_update import clipped, movement
from dynamite_fl.client.sketch import sketch
from dynamite_fl.client.step_path import StepPath, steps_in_first_half
from dynamite_fl.reports import PathReport, RoundReport
from dynamite_fl.training.engine import RoundOutcome
from dynamite_fl.training.private_mechanism import Mechanism, PrivacyState
from dynamite_fl.training.server_step import AveragedRound

_SKETCH_SHARE = 0.5  # sketches are halved, so that they use little of the clip norm
_CLIP_RATE = 0.2  # how fast the clip norm follows its quantile, as in the paper


@dataclass(frozen=True, eq=False)
class NoisySum:
    """The noisy sum of a round's clipped vectors, divided by the expected number of clients.

    Attributes:
        mean: The mean vector, (d,).
        unclipped: The noisy share of vectors that were not clipped; NaN if it was not counted.
    """

    mean: Tensor
    unclipped: float


def private_average(
    mechanism: Mechanism, state: PrivacyState, weights: Tensor, outcome: RoundOutcome
) -> tuple[AveragedRound, RoundOutcome, int, PrivacyState]:
    """Average the updates of a round with differential privacy.

    If clients measured their path, its sketches are joined to the updates before both are clipped:
    the path is a part of the same mechanism and needs no privacy of its own.

    Args:
        mechanism: The clipping and the noise.
        state: The privacy state before the round.
        weights: The global model before the round, (d,).
        outcome: The outcome of the round.

    Returns:
        The noisy average; the outcome, with the noisy mean path if clients measured it; the number
        of misshapen updates; and the state after the round.
    """
    updates = [] if state.is_cohort_empty else outcome.updates
    is_alike = [u.shape == weights.shape and u.dtype == weights.dtype for u in updates]
    paths: Sequence[StepPath | None] = outcome.paths or [None] * len(updates)
    has_path = bool(outcome.paths)
    rate, trained = outcome.report.learning_rate, weights.numel()
    vectors = [
        movement(weights, update, _path_parts(weights - update, path, rate))
        for update, path, fits in zip(updates, paths, is_alike, strict=False)
        if fits
    ]
    has_gradient = has_path and outcome.paths[0].gradient_sum is not None
    sketches = (2 + has_gradient) * has_path
    size = trained + sketches * sketch(weights).numel()
    noisy = noisy_sum(mechanism, state, vectors, size, outcome.report.round_index)
    average = (weights.double() - noisy.mean[:trained]).to(weights.dtype)
    averaged = AveragedRound(weights, average, [average], np.ones(1))
    outcome = replace(outcome, report=_without_measurements(outcome.report))
    if has_path:
        outcome = _with_noisy_path(outcome, noisy.mean[trained:], sketches)
    state = replace(state, clip_norm=_next_clip_norm(mechanism, state, noisy.unclipped))
    refused = len(is_alike) - sum(is_alike)
    return averaged, outcome, refused, replace(state, releases=state.releases + 1)


def noisy_sum(
    mechanism: Mechanism,
    state: PrivacyState,
    vectors: Sequence[Tensor],
    size: int,
    round_index: int,
) -> NoisySum:
    """Return the sum of clipped vectors with noise, divided by the expected number of clients.

    If clients have clipped and added their share of the noise, the server adds only what is missing
    because fewer clients replied than expected.

    Args:
        mechanism: The clipping and the noise.
        state: The clip norm of the round.
        vectors: A vector for each client, (size,).
        size: The length of the vectors.
        round_index: The number of the round.
    """
    total = torch.zeros(size, dtype=torch.float64)
    is_noisy = mechanism.privacy.noise_at == "node"
    within = 0.0
    for vector in vectors:
        part, was_within = (_finite(vector), True) if is_noisy else clipped(vector, state.clip_norm)
        total += part
        within += 0.5 if was_within else -0.5
    expected = mechanism.expected_clients
    missing = max(1 - len(vectors) / expected, 0.0) if is_noisy else 1.0
    deviation = mechanism.update_noise * state.clip_norm * math.sqrt(missing)
    if deviation > 0:
        drawn = mechanism.noise.draw(size, "server", round_index)
        total += deviation * torch.from_numpy(drawn)
    unclipped = math.nan
    if mechanism.privacy.clip_quantile is not None:
        bit_noise = mechanism.bit_noise * mechanism.noise.draw(1, "clipping", round_index)[0]
        unclipped = float(0.5 + (within + bit_noise) / expected)
    return NoisySum(total / expected, unclipped)


def _without_measurements(report: RoundReport) -> RoundReport:
    """Return the report without what clients measured on their data."""
    nothing = np.empty(0)
    return replace(
        report,
        probe=None,
        first_losses=nothing,
        stable_rates=nothing,
        steepness=nothing,
        race_factors=nothing,
    )


def _path_parts(moved: Tensor, path: StepPath | None, rate: float) -> list[Tensor]:
    """Return the sketches of a client's path, scaled; their order is that of ``_with_noisy_path``.

    Args:
        moved: The client's movement, (d,).
        path: The path; None if the client measured none.
        rate: The learning rate, which gives gradients the size of movements.
    """
    if path is None:
        return []
    parts = [path.first_half, sketch(moved) - path.first_half]
    if path.gradient_sum is not None:
        parts.append(rate * path.gradient_sum)
    return [_SKETCH_SHARE * part for part in parts]


def _with_noisy_path(outcome: RoundOutcome, mean: Tensor, sketches: int) -> RoundOutcome:
    """Return the outcome with the path that the noisy mean of sketches shows.

    The gradient variance of clients is not given away, so it is NaN.
    """
    report, rate = outcome.report, outcome.report.learning_rate
    first, second, *gradients = (mean / _SKETCH_SHARE).numpy().reshape(sketches, -1)
    first_steps = steps_in_first_half(report.local_steps)
    second_steps = report.local_steps - first_steps
    path = PathReport(
        first_half=first / first_steps,
        second_half=second / second_steps if second_steps else first / first_steps,
        gradient_variance=np.full(report.present.size, np.nan),
        gradient=gradients[0] / (rate * first_steps) if gradients and rate > 0 else None,
    )
    return replace(outcome, report=replace(report, path=path))


def _next_clip_norm(mechanism: Mechanism, state: PrivacyState, unclipped: float) -> float:
    """Return the clip norm of the next round, which follows the quantile if there is one."""
    quantile = mechanism.privacy.clip_quantile
    if quantile is None:
        return state.clip_norm
    return state.clip_norm * math.exp(-_CLIP_RATE * (unclipped - quantile))


def _finite(vector: Tensor) -> Tensor:
    return vector if bool(torch.isfinite(vector).all()) else torch.zeros_like(vector)
