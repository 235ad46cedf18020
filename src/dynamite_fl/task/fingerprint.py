"""Short digests by which a task's data and model can be recognised."""

import hashlib
import sys
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.task.task import Task

_WHOLE_BYTES = 64 * 1024**2  # a larger tensor is represented by some of its rows
_SAMPLED_ROWS = 4096
_DIGEST_BYTES = 8


def fingerprint(task: Task) -> dict[str, str]:
    """Return a digest of 16 hexadecimal digits for each part of a task.

    The parts are the training data with its clients, the test data, and the model: the names and
    shapes of its weights, and the penalty. Of a tensor above 64 MB the digest covers the shape and
    4096 evenly spaced rows, so that it takes well below a second. It is the same on every machine.

    Example:
        >>> from dynamite_fl.task.registry import make_task
        >>> sorted(fingerprint(make_task("softmax", "digits")))
        ['model', 'test data', 'training data']
    """
    training = {"inputs": task.train_inputs, "targets": task.train_targets}
    if task.train_clients is not None:
        training["clients"] = torch.tensor(task.train_clients, dtype=torch.int64)
    return {
        "training data": _digest(training),
        "test data": _digest({"inputs": task.test_inputs, "targets": task.test_targets}),
        "model": _model_digest(task),
    }


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name, tensor in tensors.items():
        digest.update(_line(name, tensor))
        digest.update(_bytes(_represented(tensor.detach())))
    return digest.hexdigest()


def _model_digest(task: Task) -> str:
    digest = hashlib.blake2b(f"penalty {task.penalty!r}\n".encode(), digest_size=_DIGEST_BYTES)
    for name, tensor in task.new_model(seed=0).state_dict().items():
        digest.update(_line(name, tensor))
    return digest.hexdigest()


def _line(name: str, tensor: Tensor) -> bytes:
    """Return a tensor's name, type and shape, so that equal bytes of another shape differ."""
    return f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode()


def _represented(tensor: Tensor) -> Tensor:
    """Return the tensor, or evenly spaced rows of a large one."""
    if tensor.numel() * tensor.element_size() <= _WHOLE_BYTES:
        return tensor
    rows = min(_SAMPLED_ROWS, len(tensor))
    return tensor[torch.arange(rows, device=tensor.device) * len(tensor) // rows]


def _bytes(tensor: Tensor) -> bytes | memoryview:
    """Return the entries row by row, each with its lowest byte first."""
    octets = tensor.cpu().contiguous().view(torch.uint8).numpy()
    if sys.byteorder == "big":
        octets = octets.reshape(-1, tensor.element_size())[:, ::-1]
    return np.ascontiguousarray(octets).data
