"""A short digest by which a task's data and model can be recognised."""

import hashlib
import sys

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.task.task import Task

_WHOLE_BYTES = 64 * 1024**2  # a larger tensor is represented by some of its rows
_SAMPLED_ROWS = 4096


def fingerprint(task: Task) -> str:
    """Return a digest of a task's data and of its model's shape, 32 hexadecimal digits.

    It covers the training and test tensors, the clients of the training samples, and the names
    and shapes of the model's weights. Of a tensor above 64 MB it covers the shape and 4096 evenly
    spaced rows, so that it takes well below a second. It is the same on every machine.

    Example:
        >>> from dynamite_fl.task.registry import make_task
        >>> fingerprint(make_task("softmax", "digits"))
        'a31d748e971e51206b4d4085be06633d'
    """
    digest = hashlib.blake2b(digest_size=16)
    tensors = {
        "train_inputs": task.train_inputs,
        "train_targets": task.train_targets,
        "test_inputs": task.test_inputs,
        "test_targets": task.test_targets,
    }
    if task.train_clients is not None:
        tensors["train_clients"] = torch.tensor(task.train_clients, dtype=torch.int64)
    for name, tensor in tensors.items():
        digest.update(_line(name, tensor))
        digest.update(_bytes(_represented(tensor.detach())))
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
