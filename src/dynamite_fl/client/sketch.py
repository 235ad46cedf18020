"""Sketches: short vectors that nearly preserve the inner products of long ones.

Every entry of a vector gets a random sign and is added to one of m sums (Charikar, Chen and
Farach-Colton: Finding Frequent Items in Data Streams, 2002). A sketch is linear: the average of
sketches is the sketch of the average. The inner product of two sketches estimates that of the
vectors x and y without bias, with an error of about |x| |y| / sqrt(m), or more if a few entries
hold nearly all of the norm. The signs are the same on every machine.
"""

from functools import lru_cache

import torch
from torch import Tensor

_LARGEST = 251  # odd, so that the columns of a layer do not fall into the same sum
_SMALLEST = 17
_NUMBERS_PER_SUM = 16  # a sketch adds 3 % to the traffic of a model sent there and back


def sketch_size(numbers: int) -> int:
    """Return m, the length of the sketch of a vector with so many numbers.

    Example:
        >>> [sketch_size(numbers) for numbers in (2, 784, 7850, 600_000)]
        [2, 49, 251, 251]
    """
    return min(max(numbers // _NUMBERS_PER_SUM | 1, _SMALLEST), _LARGEST, numbers)


def sketch(vectors: Tensor) -> Tensor:
    """Return the sketches (..., m) of vectors (..., d).

    Example:
        >>> x, y = torch.randn(2, 4000, generator=torch.Generator().manual_seed(0))
        >>> estimate, exact = float(sketch(x) @ sketch(y)), float(x @ y)
        >>> abs(estimate - exact) < 3 * float(x.norm() * y.norm()) / sketch_size(4000) ** 0.5
        True
    """
    d = vectors.shape[-1]
    m = sketch_size(d)
    signed = vectors * _signs(d)
    padded = torch.nn.functional.pad(signed, (0, -d % m))
    return padded.view(*vectors.shape[:-1], -1, m).sum(-2)


@lru_cache(maxsize=4)
def _signs(numbers: int) -> Tensor:
    coins = torch.randint(0, 2, (numbers,), generator=torch.Generator().manual_seed(numbers))
    return (2 * coins - 1).to(torch.get_default_dtype())
