"""How much a round sends, of which models there and back are 1."""

from dynamite_fl.client.sketch import sketch_size
from dynamite_fl.engine.engine import RoundOrder

GRADIENT = 0.5  # a gradient beside a model that comes and goes: half as much again


def sketch_traffic(numbers: int) -> float:
    """What a sketch adds to a model of so many numbers."""
    return sketch_size(numbers) / (2 * numbers)


def traffic(order: RoundOrder) -> float:
    """What an order has clients send."""
    sketched = sketch_traffic(order.weights.numel())
    return 1 + GRADIENT * order.probe + sketched * order.path
