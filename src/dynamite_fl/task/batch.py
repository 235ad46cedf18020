"""Batches of any structure: what a model is given, and what its outputs are compared with.

A batch is what a dataset's samples collate to:

- a tuple whose last entry holds the targets; the entries before it are the model's inputs, and one
  entry that is a tuple or a dict is spread over the model's arguments, but not a named tuple, such
  as a packed sequence;
- a dict with the targets under ``labels`` or ``label``; the other entries are the model's keyword
  arguments, as Hugging Face models expect them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from dynamite_fl.errors import InvalidInput

Batch: TypeAlias = Any
TARGET_KEYS = ("labels", "label")


def map_tensors(function: Callable[[Tensor], Any], nest: Any) -> Any:
    """Apply a function to every tensor in nested tuples, lists and dicts; keep all else.

    Example:
        >>> map_tensors(len, (torch.zeros(2), {"mask": torch.zeros(3), "name": "x"}))
        (2, {'mask': 3, 'name': 'x'})
    """
    if isinstance(nest, Tensor):
        return function(nest)
    return _map_parts(lambda part: map_tensors(function, part), nest)


def _map_parts(function: Callable[[Any], Any], nest: Any) -> Any:
    """Apply a function to the parts of a tuple, list or dict; keep all else."""
    if isinstance(nest, Mapping):
        return {key: function(value) for key, value in nest.items()}
    if isinstance(nest, tuple):
        parts = [function(value) for value in nest]
        return type(nest)(*parts) if hasattr(nest, "_fields") else tuple(parts)
    return [function(value) for value in nest] if isinstance(nest, list) else nest


def tensors_in(nest: Any) -> Iterator[Tensor]:
    """Yield every tensor in nested tuples, lists and dicts."""
    if isinstance(nest, Tensor):
        yield nest
    elif isinstance(nest, Mapping):
        for value in nest.values():
            yield from tensors_in(value)
    elif isinstance(nest, tuple | list):
        for value in nest:
            yield from tensors_in(value)


def split_batch(batch: Batch) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Return the model's arguments, its keyword arguments, and the targets.

    Example:
        >>> split_batch((1, 2, "target"))
        ((1, 2), {}, 'target')
        >>> split_batch({"input_ids": 1, "labels": "target"})
        ((), {'input_ids': 1}, 'target')
    """
    if isinstance(batch, Mapping):
        key = next((key for key in TARGET_KEYS if key in batch), None)
        if key is None:
            raise InvalidInput(
                f"a batch is a dict with the keys {', '.join(map(str, batch))}, and none of them "
                "is labels: rename the key of the targets, or give Task.training_step and "
                "Task.predict"
            )
        return (), {name: value for name, value in batch.items() if name != key}, batch[key]
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise InvalidInput(
            f"a batch is a {type(batch).__name__} without targets: samples must be pairs of "
            "inputs and target, or give Task.training_step and Task.predict"
        )
    *inputs, targets = batch
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        return (), dict(inputs[0]), targets
    if len(inputs) == 1 and type(inputs[0]) in (tuple, list):
        are_texts = all(isinstance(part, str) for part in inputs[0])  # one for each sample
        return tuple(inputs) if are_texts else tuple(inputs[0]), {}, targets
    return tuple(inputs), {}, targets


def with_targets(batch: Batch, targets: Any) -> Batch:
    """Return a batch with other targets.

    Example:
        >>> with_targets((1, 2, "target"), "other")
        (1, 2, 'other')
        >>> with_targets({"input_ids": 1, "labels": "target"}, "other")
        {'input_ids': 1, 'labels': 'other'}
    """
    if isinstance(batch, Mapping):
        key = next(key for key in TARGET_KEYS if key in batch)
        return {**batch, key: targets}
    return (*batch[:-1], targets)


def predict(model: nn.Module, batch: Batch) -> tuple[Any, Any]:
    """Return a model's outputs for a batch, and the batch's targets."""
    arguments, keywords, targets = split_batch(batch)
    return model(*arguments, **keywords), targets


def batch_length(batch: Batch) -> int:
    """Return the number of samples in a batch: the length of its first tensor.

    Example:
        >>> batch_length((torch.zeros(3, 2), torch.zeros(3)))
        3
    """
    for tensor in tensors_in(batch):
        if tensor.dim():
            return len(tensor)
    raise InvalidInput(
        "a batch holds no tensor: Task.collate_fn must return tensors in a tuple, list or dict"
    )


def to_device(nest: Any, device: torch.device) -> Any:
    """Move tensors, and other things that can be moved, to a device.

    This is the only place where batches are moved.
    """
    if device.type == "cpu":
        return nest
    if hasattr(nest, "to"):  # a tensor, a packed sequence, or a batch of another library
        return nest.to(device, non_blocking=True)
    return _map_parts(lambda part: to_device(part, device), nest)
