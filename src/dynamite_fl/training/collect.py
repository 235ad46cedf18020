"""What clients said in a round, put together for the controller."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.messages import Reply
from dynamite_fl.client.probe import ProbeFigures
from dynamite_fl.records import FloatArray
from dynamite_fl.reports import Probe, RoundReport
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.engine import RoundOrder

_LARGEST_RATE = 5.0  # of a client, as a multiple of the median
_FIGURES = tuple(figure.name for figure in fields(ProbeFigures))


def round_report(
    order: RoundOrder,
    replies: Sequence[Reply | None],
    step_seconds: FloatArray,
    comm_seconds: FloatArray,
) -> RoundReport:
    """Return the report of a round.

    Args:
        order: The order of the round.
        replies: The reply of each client of the cohort; None for those who are absent.
        step_seconds: The seconds of one local step of each client, (m,).
        comm_seconds: The seconds of communication of each client, (m,).
    """
    present = np.array([reply is not None for reply in replies], dtype=bool)
    samples = column(replies, "samples")
    return RoundReport(
        round_index=order.round_index,
        clients=order.cohort,
        local_steps=order.plan.local_steps,
        learning_rate=rate_of_steps(order, replies),
        batch_sizes=order.plan.batch_sizes,
        present=present,
        samples=samples,
        step_seconds=np.where(present, step_seconds, np.nan),
        comm_seconds=np.where(present, comm_seconds, np.nan),
        first_losses=column(replies, "first_loss"),
        stable_rates=column(replies, "stable_rate"),
        steepness=column(replies, "steepness"),
        race_factors=column(replies, "race_factor"),
        probe=collect(replies, samples) if order.probe else None,
    )


def collect(replies: Sequence[Reply | None], samples: FloatArray) -> Probe:
    """Return the clients' figures as columns, with each gradient's distance from the average.

    Args:
        replies: The reply of each client of the cohort; None for those who are absent.
        samples: The number of samples of each client of the cohort, (m,).
    """
    columns = {name: np.full(samples.size, np.nan) for name in _FIGURES}
    variance = np.full(samples.size, np.nan)
    for place, reply in enumerate(replies):
        if reply is None:
            continue
        if reply.gradient_variance is not None:
            variance[place] = reply.gradient_variance
        if reply.figures is not None:
            for name in _FIGURES:
                columns[name][place] = getattr(reply.figures, name)
    gradients = [None if reply is None else reply.gradient for reply in replies]
    return Probe(**columns, divergence=_divergence(gradients, samples), gradient_variance=variance)


def column(replies: Sequence[Reply | None], name: str) -> FloatArray:
    """Return a field of each client's reply, NaN for those who are absent, (m,)."""
    return np.array([np.nan if reply is None else getattr(reply, name) for reply in replies])


def rate_of_steps(order: RoundOrder, replies: Sequence[Reply | None]) -> float:
    """Return the ordered learning rate; the mean of the clients' rates if each found its own.

    A rate counts as five times the median at most, so that no single client decides.
    """
    rates = [reply.learning_rate for reply in replies if reply is not None]
    if order.rate_trial != "adopt" or not rates:
        return order.learning_rate
    return float(np.minimum(rates, _LARGEST_RATE * np.median(rates)).mean())


def _divergence(gradients: Sequence[Tensor | None], samples: FloatArray) -> FloatArray:
    """Return delta_i = |g_i - g| with g = sum_i D_i g_i / D over those who sent a gradient."""
    divergence = np.full(samples.size, np.nan)
    places = [place for place, gradient in enumerate(gradients) if gradient is not None]
    if places:
        sent = [gradient for gradient in gradients if gradient is not None]
        mean = average(sent, samples[places])
        divergence[places] = [float(torch.linalg.vector_norm(g - mean)) for g in sent]
    return divergence
