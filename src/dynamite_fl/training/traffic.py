"""How much a round sends, in units of a model's way to the client and back."""

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.client.sketch import sketch_size
from dynamite_fl.records import FloatArray
from dynamite_fl.training.engine import ModelSize, RoundOrder


def probe_traffic(size: ModelSize, *, sketch: bool) -> float:
    """Return what a probe adds: the gradient of the trained weights, or a sketch of it.

    Args:
        size: The size of the model.
        sketch: Whether a sketch of the gradient is sent instead of the gradient.

    Example:
        >>> size = ModelSize(numbers=7850, trained=7850)
        >>> probe_traffic(size, sketch=False), round(probe_traffic(size, sketch=True), 3)
        (0.5, 0.016)
    """
    sent = sketch_size(size.trained) if sketch else size.trained
    return sent / (2 * size.numbers)


def path_traffic(size: ModelSize) -> float:
    """Return what the sketches of a path add."""
    return size.path_sketches * sketch_size(size.trained) / (2 * size.numbers)


def traffic(order: RoundOrder, size: ModelSize, gradients: ArrayLike) -> FloatArray:
    """Return what is sent and received: of each client, or on average over clients.

    Args:
        order: The order. If its measurements are free, only the model counts.
        size: The size of the model.
        gradients: How many gradients of a probe a client sends, 0 or 1, or their mean. In its
            first round, for example, a client sends none.
    """
    if order.free_probes:
        return np.ones(np.shape(gradients))
    probe = np.asarray(gradients) * probe_traffic(size, sketch=order.sketch)
    return np.asarray(1 + probe + order.path * path_traffic(size))
