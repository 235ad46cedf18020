"""Synthetic(alpha, beta) of FedProx: clients whose inputs and whose true models differ.

T. Li et al.: Federated Optimization in Heterogeneous Networks. MLSys 2020.
"""

import numpy as np
import torch

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.task.datasets.dataset import Dataset

_FEATURES = 60
_CLASSES = 10


def synthetic(alpha: float = 1.0, beta: float = 1.0, clients: int = 30, seed: int = 0) -> Dataset:
    """Draw clients whose labels are those of a random linear model of their own.

    The draws are those of section 5.1 of Li et al. (2020) and of their published code. Client k
    has the labels argmax(W x + b). The entries of W and b are normal with mean u_k. The inputs x
    are normal with mean v_k, whose entries are normal with mean B_k, and the variance of input j
    is j^-1.2. A client has 50 samples plus a log-normal number. The last tenth of them is for
    testing.

    Args:
        alpha: The standard deviation of u_k: how much the clients' models differ.
        beta: The standard deviation of B_k: how much the clients' inputs differ.
        clients: The number of clients.
        seed: The seed of the draws.

    Example:
        >>> data = synthetic(clients=3)
        >>> data.train_inputs.shape[1], np.bincount(data.train_clients).size
        (60, 3)
    """
    if not (0 <= alpha < np.inf and 0 <= beta < np.inf):
        raise InvalidInput(f"alpha is {alpha} and beta is {beta}: they must be finite, 0 or more")
    if clients < 1:
        raise InvalidInput(f"the number of clients is {clients}: it must be 1 or more")
    random = np.random.default_rng(seed)
    sizes = 50 + random.lognormal(4.0, 2.0, clients).astype(np.int64)
    draws = [_client(random, alpha, beta, int(size)) for size in sizes]
    inputs = np.concatenate([inputs for inputs, _ in draws])
    labels = np.concatenate([labels for _, labels in draws])
    is_training = np.concatenate([np.arange(size) < size * 9 // 10 for size in sizes])
    return Dataset(
        name=f"synthetic-{alpha:g}-{beta:g}",
        train_inputs=torch.from_numpy(inputs[is_training]),
        train_labels=torch.from_numpy(labels[is_training]),
        test_inputs=torch.from_numpy(inputs[~is_training]),
        test_labels=torch.from_numpy(labels[~is_training]),
        classes=_CLASSES,
        train_clients=np.repeat(np.arange(clients), sizes)[is_training],
    )


def _client(
    random: np.random.Generator, alpha: float, beta: float, size: int
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float32]], IntArray]:
    """Draw one client's inputs (size, 60) and labels (size,)."""
    model_mean = random.normal(0.0, alpha)
    weights = random.normal(model_mean, 1.0, (_FEATURES, _CLASSES))
    bias = random.normal(model_mean, 1.0, _CLASSES)
    input_mean = random.normal(random.normal(0.0, beta), 1.0, _FEATURES)
    deviation = np.arange(1, _FEATURES + 1) ** -0.6
    inputs = input_mean + deviation * random.standard_normal((size, _FEATURES))
    labels = (inputs @ weights + bias).argmax(axis=1)
    return inputs.astype(np.float32), labels
