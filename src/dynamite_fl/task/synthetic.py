"""Synthetic(alpha, beta) of FedProx: clients whose data and whose truth differ."""

import numpy as np
import torch

from dynamite_fl.records import IntArray
from dynamite_fl.task.dataset import Dataset

_FEATURES = 60
_CLASSES = 10


def synthetic(alpha: float = 1.0, beta: float = 1.0, clients: int = 30, seed: int = 0) -> Dataset:
    """Each client's labels are those of its own random linear model, without noise.

    From Li et al. (2020), section 5.1, as their published code draws it: client k has
    labels argmax(W x + b) with W and b normal about u_k and inputs normal about v_k, whose
    entries are normal about B_k; the variance of input j is j^-1.2. Sizes are 50 plus a
    log-normal number. The last tenth of each client's samples is for testing.

    Args:
        alpha: Deviation of u_k: how much the clients' models differ.
        beta: Deviation of B_k: how much their inputs differ.
        clients: How many there are.
        seed: The same seed, the same data.

    Example:
        >>> data = synthetic(clients=3)
        >>> data.train_inputs.shape[1], np.bincount(data.train_clients).size
        (60, 3)
    """
    if not (0 <= alpha < np.inf and 0 <= beta < np.inf):
        raise ValueError(f"alpha is {alpha} and beta is {beta}: they must be finite, 0 or more")
    if clients < 1:
        raise ValueError(f"the number of clients is {clients}: it must be 1 or more")
    random = np.random.default_rng(seed)
    sizes = 50 + random.lognormal(4.0, 2.0, clients).astype(np.int64)
    draws = [_client(random, alpha, beta, int(size)) for size in sizes]
    inputs = np.concatenate([inputs for inputs, _ in draws])
    labels = np.concatenate([labels for _, labels in draws])
    learning = np.concatenate([np.arange(size) < size * 9 // 10 for size in sizes])
    return Dataset(
        name=f"synthetic-{alpha:g}-{beta:g}",
        train_inputs=torch.from_numpy(inputs[learning]),
        train_labels=torch.from_numpy(labels[learning]),
        test_inputs=torch.from_numpy(inputs[~learning]),
        test_labels=torch.from_numpy(labels[~learning]),
        classes=_CLASSES,
        train_clients=np.repeat(np.arange(clients), sizes)[learning],
    )


def _client(
    random: np.random.Generator, alpha: float, beta: float, size: int
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float32]], IntArray]:
    """One client's inputs (size, 60) and labels (size,)."""
    model_mean = random.normal(0.0, alpha)
    weights = random.normal(model_mean, 1.0, (_FEATURES, _CLASSES))
    bias = random.normal(model_mean, 1.0, _CLASSES)
    input_mean = random.normal(random.normal(0.0, beta), 1.0, _FEATURES)
    deviation = np.arange(1, _FEATURES + 1) ** -0.6
    inputs = input_mean + deviation * random.standard_normal((size, _FEATURES))
    labels = (inputs @ weights + bias).argmax(axis=1)
    return inputs.astype(np.float32), labels
