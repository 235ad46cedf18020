"""How much a round sends, of which models there and back are 1."""

from dynamite_fl.client.sketch import sketch_size
from dynamite_fl.engine.engine import RoundOrder


def probe_traffic(numbers: int, *, sketch: bool) -> float:
    """What a probe's gradient, or a sketch of it, adds to a model of so many numbers.

    Example:
        >>> probe_traffic(7850, sketch=False), round(probe_traffic(7850, sketch=True), 3)
        (0.5, 0.016)
    """
    return sketch_traffic(numbers) if sketch else 0.5


def sketch_traffic(numbers: int) -> float:
    """What a sketch adds to a model of so many numbers."""
    return sketch_size(numbers) / (2 * numbers)


def traffic(order: RoundOrder) -> float:
    """What an order has clients send."""
    numbers = order.weights.numel()
    probe = order.probe * probe_traffic(numbers, sketch=order.sketch)
    return 1 + probe + order.path * sketch_traffic(numbers)
