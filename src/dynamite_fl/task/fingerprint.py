"""Short digests by which a task's data and model can be recognised."""

import hashlib
import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from dynamite_fl._load import user_code
from dynamite_fl._random import random_stream
from dynamite_fl.records import IntArray
from dynamite_fl.task.batch import tensors_in
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.samples import JoinedSamples, Samples
from dynamite_fl.task.task import Task
from dynamite_fl.task.tensor_samples import TensorSamples

_WHOLE_BYTES = 64 * 1024**2  # a larger tensor is represented by some of its rows
_SAMPLED_ROWS = 4096
_SAMPLED_ITEMS = 16  # of a dataset, which may load each from a file
_DIGEST_BYTES = 8


def fingerprint(task: Task) -> dict[str, str]:
    """Return a digest of 16 hexadecimal digits for each part of a task.

    The parts are the training data with its clients, the test data, and the model: the names and
    shapes of its weights, the values of frozen ones, and the penalty. Of tensors above 64 MB and of
    datasets the digest covers the number of samples and some evenly spaced ones, so that it takes
    well below a second. If each client has data of its own, all clients share these bounds. It is
    the same on every machine.

    Example:
        >>> from dynamite_fl.task.registry import make_task
        >>> sorted(fingerprint(make_task("softmax", "digits")))
        ['model', 'test data', 'training data']
    """
    parts = {"model": _model_digest(task)}
    if task.has_train_data:
        owners = task.owners
        clients = None if owners is None else torch.tensor(np.asarray(owners), dtype=torch.int64)
        parts["training data"] = _digest(task.train, clients)
    if task.has_test_data:
        parts["test data"] = _digest(task.test)
    return parts


def _digest(samples: Samples, clients: Tensor | None = None) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name, tensor in _contents(samples):
        digest.update(_line(name, tensor))
        digest.update(_bytes(tensor.detach()))
    if clients is not None:
        digest.update(_line("clients", clients))
        digest.update(_bytes(clients))
    return digest.hexdigest()


def _contents(samples: Samples, parts: int = 1) -> Iterator[tuple[str, Tensor]]:
    """Yield tensors that represent the samples, with their names and the number of samples.

    Args:
        samples: The samples.
        parts: The number of parts, of which the samples are one.
    """
    if isinstance(samples, TensorSamples):
        rows = _represented(samples, parts)
        batch = samples.batch(rows)
        names = ("inputs", "targets")
        for name, nest in zip(names, batch, strict=True):
            for tensor in tensors_in(nest):
                yield f"{name} {len(samples)}", tensor
    elif isinstance(samples, JoinedSamples):
        for client, part in enumerate(samples.parts):
            for name, tensor in _contents(part, len(samples.parts)):
                yield f"client {client} {name}", tensor
    else:
        yield f"samples {len(samples)}", torch.zeros(0)
        for row in _evenly_spaced(len(samples), _SAMPLED_ITEMS // parts):
            stream, cpu = random_stream(0, "fingerprint"), torch.device("cpu")
            with user_code(f"loading sample {row}"), keyed_random(stream, cpu):
                sample = samples.batch(row[None])
            for tensor in tensors_in(sample):
                yield "sample", tensor


def _represented(samples: TensorSamples, parts: int) -> IntArray:
    """Return all rows, or evenly spaced ones if the samples are large."""
    if samples.nbytes <= _WHOLE_BYTES // parts:
        return np.arange(len(samples))
    fitting = max(_WHOLE_BYTES // parts * len(samples) // samples.nbytes, 1)
    return _evenly_spaced(len(samples), min(_SAMPLED_ROWS // parts, fitting))


def _evenly_spaced(samples: int, most: int) -> IntArray:
    """Return the numbers of evenly spaced samples, of at least one."""
    rows = min(max(most, 1), samples)
    return np.arange(rows) * samples // rows


def _model_digest(task: Task) -> str:
    digest = hashlib.blake2b(f"penalty {task.penalty!r}\n".encode(), digest_size=_DIGEST_BYTES)
    model = task.new_model(seed=0)
    weights = model.named_parameters(remove_duplicate=False)
    frozen = {name for name, weight in weights if not weight.requires_grad}
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, Tensor):  # a module may add other things to its state
            continue
        digest.update(_line(name, tensor))
        if name in frozen:
            spaced = tensor.detach().reshape(-1)[:: max(tensor.nbytes // _WHOLE_BYTES, 1)]
            digest.update(_bytes(spaced))
    return digest.hexdigest()


def _line(name: str, tensor: Tensor) -> bytes:
    """Return a tensor's name, type and shape, so that equal bytes of another shape differ."""
    return f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode()


def _bytes(tensor: Tensor) -> bytes | memoryview:
    """Return the entries row by row, each with its lowest byte first."""
    row_by_row = tensor.cpu().reshape(-1).clone(memory_format=torch.contiguous_format)
    octets = row_by_row.view(torch.uint8).numpy()
    if sys.byteorder == "big":
        octets = octets.reshape(-1, tensor.element_size())[:, ::-1]
    return np.ascontiguousarray(octets).data
