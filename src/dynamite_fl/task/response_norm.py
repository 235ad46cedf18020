"""Local response normalisation across channels, exact and quick on a CPU."""

import torch
from torch import Tensor, nn


class LocalResponseNorm(nn.Module):
    """Divide every channel by how active its neighbours are: x / (1 + c sum_j x_j^2)^(3/4).

    The sum runs over the channels at most ``radius`` away, those that exist. In TensorFlow's
    terms bias is 1 and beta 0.75, and c is ``scale``; ``torch.nn.LocalResponseNorm(size=9,
    alpha=0.001, beta=0.75, k=1)`` is this with radius 4 and scale 0.001 / 9. Torch pools over
    a padded fifth dimension and takes a power of every entry; here the sums are one product
    with a band of ones, and the power is two square roots.

    Example:
        >>> norm = LocalResponseNorm(channels=4, scale=1.0)
        >>> images = torch.tensor([3.0, 1, 2, 1]).reshape(1, 4, 1, 1)
        >>> norm(images).flatten()  # (1 + 9 + 1 + 4 + 1)^(3/4) = 8
        tensor([0.3750, 0.1250, 0.2500, 0.1250])
    """

    band: Tensor

    def __init__(self, channels: int, radius: int = 4, scale: float = 0.001 / 9) -> None:
        super().__init__()
        position = torch.arange(channels)
        near = (position[:, None] - position).abs() <= radius
        # It never changes, so it is no part of what a model stores or sends.
        self.register_buffer("band", near.to(torch.get_default_dtype()) * scale, persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """From (..., channels, height, width) to the same shape."""
        sums = torch.matmul(self.band, (inputs * inputs).flatten(-2)).reshape(inputs.shape)
        root = torch.rsqrt(1 + sums)
        return inputs * (root * torch.sqrt(root))
