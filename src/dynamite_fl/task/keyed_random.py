"""Random numbers inside models and datasets, from streams keyed by seed, client and round.

Dropout and augmentation draw from the generators of torch, NumPy and Python that a whole process
shares. Within ``keyed_random`` all three begin at a state that depends on the key alone, so that a
client's round is the same in any order, in any process and after a resume.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_TORCH_SEEDS = 2**63
_NUMPY_SEEDS = 2**32


@contextmanager
def keyed_random(stream: np.random.Generator, device: torch.device) -> Iterator[None]:
    """Seed all shared generators from a stream within the context, and put them back after it.

    Args:
        stream: The stream of a seed, a client and a round.
        device: The device that the model is computed on.

    Example:
        >>> from dynamite_fl._random import random_stream
        >>> def draw():
        ...     with keyed_random(random_stream(0, "example"), torch.device("cpu")):
        ...         return float(torch.rand(())), random.random(), np.random.random()
        >>> draw() == draw()
        True
    """
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        seed_torch(int(stream.integers(_TORCH_SEEDS)), device)
        np.random.seed(int(stream.integers(_NUMPY_SEEDS)))  # noqa: NPY002  users' code draws from it
        random.seed(int(stream.integers(_TORCH_SEEDS)))
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed torch's generators of the CPU and of a device.

    ``torch.manual_seed`` seeds those of all GPUs. As long as no GPU is used, it formats a traceback
    in every call, which takes more time than the seeding.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
