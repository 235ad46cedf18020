"""Clipping and noise of one client's update, for differential privacy.

The movement of a client is the global model minus its local model. Its norm is limited, so that one
client changes the sum of a round by at most the clip norm, whatever data it has.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dynamite_fl.client.gaussian_noise import Noise
from dynamite_fl.client.messages import Order, Reply

_BELOW = 1 - 1e-12  # keeps a clipped vector within the norm in spite of rounding


@dataclass(frozen=True)
class NodePrivacy:
    """What a client does to its update before it is sent, if noise is added by clients.

    Attributes:
        clip_norm: The largest norm of the client's movement.
        noise_deviation: The standard deviation of the noise that the client adds to each number.
        noise: The source of the noise.
    """

    clip_norm: float
    noise_deviation: float
    noise: Noise


def clipped(vector: Tensor, clip_norm: float) -> tuple[Tensor, bool]:
    """Limit the norm of a vector, and say whether it was within the limit.

    A vector that is not finite becomes zero.

    Example:
        >>> clipped(torch.tensor([3.0, 4.0], dtype=torch.float64), clip_norm=10.0)
        (tensor([3., 4.], dtype=torch.float64), True)
        >>> vector, was_within = clipped(torch.tensor([3.0, 4.0]).double(), clip_norm=1.0)
        >>> round(float(vector.norm()), 9), was_within
        (1.0, False)
    """
    norm = float(torch.linalg.vector_norm(vector))
    if norm <= clip_norm * _BELOW:
        return vector, True
    if not torch.isfinite(vector).all():
        return torch.zeros_like(vector), False
    largest = vector.abs().max()  # the norm of huge numbers may be infinite although they are not
    smaller = vector / largest
    return smaller * (clip_norm * _BELOW / torch.linalg.vector_norm(smaller)), False


def movement(before: Tensor, after: Tensor, parts: Sequence[Tensor] = ()) -> Tensor:
    """Return the global model minus a local model, followed by other parts, in double precision."""
    return torch.cat([before.double() - after.double(), *(part.double() for part in parts)])


def private_reply(reply: Reply, order: Order, privacy: NodePrivacy | None) -> Reply:
    """Return what a client sends: its clipped and noisy update, and no measurement of its data.

    Args:
        reply: The reply without protection.
        order: The order that it answers.
        privacy: The clipping and the noise; None if clients add no noise.
    """
    if privacy is None:
        return reply
    moved, _ = clipped(movement(order.weights, reply.weights), privacy.clip_norm)
    drawn = privacy.noise.draw(moved.numel(), "node", order.round_index, order.client)
    moved = moved + privacy.noise_deviation * torch.from_numpy(drawn)
    return replace(
        reply,
        weights=(order.weights.double() - moved).to(order.weights.dtype),
        figures=None,
        gradient=None,
        gradient_variance=None,
        path=None,
        first_loss=math.nan,
        stable_rate=math.nan,
        steepness=math.nan,
        race_factor=math.nan,
    )
