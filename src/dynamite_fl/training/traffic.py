"""How much a round sends, in units of a model's way to the client and back."""

from dynamite_fl.client.sketch import sketch_size
from dynamite_fl.training.engine import RoundOrder


def probe_traffic(numbers: int, *, sketch: bool) -> float:
    """Return what a probe adds: a gradient as large as the model, or a sketch of it.

    Args:
        numbers: The number of the model's weights.
        sketch: Whether a sketch of the gradient is sent instead of the gradient.

    Example:
        >>> probe_traffic(7850, sketch=False), round(probe_traffic(7850, sketch=True), 3)
        (0.5, 0.016)
    """
    return sketch_traffic(numbers) if sketch else 0.5


def sketch_traffic(numbers: int) -> float:
    """Return what a sketch adds to a model of so many weights."""
    return sketch_size(numbers) / (2 * numbers)


def traffic(order: RoundOrder) -> float:
    """Return what an order makes each client send and receive."""
    numbers = order.weights.numel()
    probe = order.probe * probe_traffic(numbers, sketch=order.sketch)
    return 1 + probe + order.path * sketch_traffic(numbers)
