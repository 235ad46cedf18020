"""Messages between processes, with the memory of tensors and arrays beside the pickle.

A pickle that contains the memory of a model is copied several times on its way. Here the memory
goes straight from the sender's tensor into the receiver's, and only the rest is pickled.
"""

import io
import os
import pickle
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Packed:
    """A message that is ready to be sent, also several times.

    Attributes:
        pickled: The message without the memory of its tensors and arrays.
        memory: The memory of its tensors and arrays, which must not change until it is sent.
    """

    pickled: bytes
    memory: list[memoryview]


def pack(message: Any) -> Packed:
    """Prepare a message; a tensor that occurs in several places of it is sent once.

    Example:
        >>> from multiprocessing import Pipe
        >>> here, there = Pipe()
        >>> send(here, pack({"weights": torch.ones(2), "round": 3}))
        >>> receive(there)
        {'weights': tensor([1., 1.]), 'round': 3}
    """
    pickled = io.BytesIO()
    memory: list[pickle.PickleBuffer] = []
    _Pickler(pickled, protocol=5, buffer_callback=memory.append).dump(message)
    return Packed(pickled.getvalue(), [part.raw() for part in memory])


def send(connection: Connection, packed: Packed) -> None:
    """Send a message.

    Raises:
        OSError: The other end is closed.
    """
    connection.send((packed.pickled, [part.nbytes for part in packed.memory]))
    for part in packed.memory:
        rest = part
        while rest:
            rest = rest[os.write(connection.fileno(), rest) :]


def receive(connection: Connection) -> Any:
    """Wait for a message and return it. Its tensors have memory of their own.

    Raises:
        EOFError: The other end is closed.
        OSError: The other end is closed.
    """
    pickled, sizes = connection.recv()
    memory = [torch.empty(size, dtype=torch.uint8).numpy() for size in sizes]  # torch aligns it
    for part in memory:
        rest = part.data
        while rest:
            count = os.readv(connection.fileno(), [rest])
            if not count:
                raise EOFError
            rest = rest[count:]
    return pickle.loads(pickled, buffers=memory)  # noqa: S301  from a process of our own


class _Pickler(pickle.Pickler):
    """Pickles a tensor as its plain memory, in a form that goes beside the pickle."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not Tensor or value.device.type != "cpu" or not value.numel():
            return NotImplemented
        memory = value.detach().contiguous().view(-1).view(torch.uint8).numpy()
        return _as_tensor, (memory, value.dtype, tuple(value.shape))


def _as_tensor(memory: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(memory).view(dtype).view(shape)
