"""What clients measured, put together for the controller."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.client import Reply
from dynamite_fl.client.probe import Figures
from dynamite_fl.engine.average import average
from dynamite_fl.records import FloatArray
from dynamite_fl.reports import Probe

_FIGURES = tuple(each.name for each in fields(Figures))


def collect(replies: Sequence[Reply | None], samples: FloatArray) -> Probe:
    """The clients' figures as columns, and how far their gradients are from the average."""
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


def _divergence(gradients: Sequence[Tensor | None], samples: FloatArray) -> FloatArray:
    """delta_i = |g_i - g| with g = sum_i D_i g_i / D over those who sent a gradient."""
    divergence = np.full(samples.size, np.nan)
    sent = [place for place, gradient in enumerate(gradients) if gradient is not None]
    if sent:
        found = [gradient for gradient in gradients if gradient is not None]
        mean = average(found, samples[sent])
        divergence[sent] = [float(torch.linalg.vector_norm(each - mean)) for each in found]
    return divergence
