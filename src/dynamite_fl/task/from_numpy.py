"""NumPy's numbers in the types that torch's models take."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def from_numpy(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor.

    Floating-point numbers get torch's default type, and whole numbers of two bytes or more become
    ``int64``, which losses and embeddings take. Bytes, booleans and complex numbers stay as they
    are. The memory is shared where the type stays the same.

    Raises:
        TypeError: The entries are no numbers.

    Example:
        >>> from_numpy(np.array([0.5, 1.5])).dtype, from_numpy(np.array([3], dtype=">i2"))
        (torch.float32, tensor([3]))
    """
    kind, size = array.dtype.kind, array.dtype.itemsize
    dtype = array.dtype.newbyteorder("=")
    if kind == "f" and size > 8:
        dtype = np.dtype(np.float64)
    elif kind in "iu" and size > 1:
        dtype = np.dtype(np.int64)
    with warnings.catch_warnings():  # nothing is written to the tensor
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        tensor = torch.from_numpy(np.ascontiguousarray(array, dtype))
    return tensor.to(torch.get_default_dtype()) if kind == "f" else tensor
