"""Long vectors made short, so that inner products stay what they are, nearly.

Every entry gets a random sign and is added to one of m sums (Charikar, Chen and Farach-Colton:
Finding Frequent Items in Data Streams, 2002). A sketch is linear: the average of sketches is the
sketch of the average, and inner products of sketches are those of the vectors, with an error of
about |x| |y| / sqrt(m), more where few entries hold nearly all, and without bias. Signs are the
same everywhere.
"""

from functools import lru_cache

import torch
from torch import Tensor

_MOST = 251  # odd, so that columns of a layer do not meet in one sum
_LEAST = 17
_PART = 16  # of a model's numbers: a sketch adds 3 % to a model's way there and back


def sketch_size(numbers: int) -> int:
    """m, how long the sketch of so many numbers is.

    Example:
        >>> [sketch_size(numbers) for numbers in (2, 784, 7850, 600_000)]
        [2, 49, 251, 251]
    """
    return min(max(numbers // _PART | 1, _LEAST), _MOST, numbers)


def sketch(vectors: Tensor) -> Tensor:
    """Sketches (..., m) of vectors (..., d).

    Example:
        >>> x, y = torch.randn(2, 4000, generator=torch.Generator().manual_seed(0))
        >>> found, true = float(sketch(x) @ sketch(y)), float(x @ y)
        >>> abs(found - true) < 3 * float(x.norm() * y.norm()) / sketch_size(4000) ** 0.5
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
