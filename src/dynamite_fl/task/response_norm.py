"""Local response normalisation across channels, exact and fast on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class LocalResponseNorm(nn.Module):
    """A layer that divides channels by the activity of neighbours: x / (1 + c sum_j x_j^2)^(3/4).

    The sum runs over the existing channels that are at most ``radius`` away, and c is ``scale``.
    In TensorFlow's terms, bias is 1 and beta is 0.75. With radius 4 and scale 0.001 / 9, the layer
    is ``torch.nn.LocalResponseNorm(size=9, alpha=0.001, beta=0.75, k=1)``. Torch pools over a
    padded fifth dimension and takes a power of every entry. Here the sums are a convolution of one
    pixel with a band matrix, and the power is two square roots.

    Args:
        channels: The number of channels.
        radius: The largest distance between two neighbouring channels.
        scale: The factor c of the sum.

    Example:
        >>> norm = LocalResponseNorm(channels=4, scale=1.0)
        >>> images = torch.tensor([3.0, 1, 2, 1]).reshape(1, 4, 1, 1)
        >>> norm(images).flatten()  # (1 + 9 + 1 + 4 + 1)^(3/4) = 8
        tensor([0.3750, 0.1250, 0.2500, 0.1250])
    """

    band: Tensor
    bias: Tensor

    def __init__(self, channels: int, radius: int = 4, scale: float = 0.001 / 9) -> None:
        super().__init__()
        position = torch.arange(channels)
        near = (position[:, None] - position).abs() <= radius
        band = near.to(torch.get_default_dtype()) * scale
        # They never change, so that a model need not store or send them.
        self.register_buffer("band", band[:, :, None, None], persistent=False)
        self.register_buffer("bias", torch.ones(channels), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the normalised inputs; both have the shape (b, channels, height, width)."""
        root = torch.rsqrt(functional.conv2d(inputs * inputs, self.band, self.bias))
        return inputs * (root * torch.sqrt(root))
