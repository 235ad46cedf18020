"""What a module holds beside the values of its weights, and how it is put back.

All clients of a process train the same module, one after the other. A forward pass may leave
something behind in it: a counter, a cache, the hidden state of a recurrent layer, a weight that is
no longer trained, the state of a random generator. A client's round must not depend on who computed
before, so every use of the module begins with the state that it had when it was made.
"""

import random
from collections import deque
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# What torch itself keeps in a module: weights, buffers, parts and hooks, and in a recurrent layer
# references to its weights, which cannot be pickled.
_OF_TORCH = (vars(nn.Module()).keys() - {"training"}) | {"_flat_weight_refs"}


_GENERATORS = (torch.Generator, np.random.Generator, random.Random)
_SEEDS = 2**63


class ModuleState:
    """The state of a module when this object is made: buffers, attributes, and what is trained.

    Attributes that hold tensors, lists, dicts or sets are put back with their content. Random
    generators are seeded by the seed of torch's own, which is that of a client and a round
    (``task/keyed_random.py``). What other objects hold inside is left as it is.

    Args:
        module: The module.

    Example:
        >>> layer = nn.BatchNorm1d(2)
        >>> state = ModuleState(layer)
        >>> _ = layer(torch.rand(3, 2))
        >>> int(layer.num_batches_tracked), bool(layer.running_mean.any())
        (1, True)
        >>> state.restore()
        >>> int(layer.num_batches_tracked), bool(layer.running_mean.any())
        (0, False)
    """

    def __init__(self, module: nn.Module) -> None:
        self._trained = [(weight, weight.requires_grad) for weight in module.parameters()]
        self._parts: list[tuple[nn.Module, dict[str, Any], dict[str, Any]]] = []
        for part in module.modules():
            attributes = {key: value for key, value in vars(part).items() if key not in _OF_TORCH}
            self._parts.append((part, attributes, dict(part._buffers)))
        values = [v for _, *entries in self._parts for entry in entries for v in entry.values()]
        self._contents = [(value, _copy(value)) for value in values if _can_change(value)]
        self._generators = [value for value in values if isinstance(value, _GENERATORS)]

    def restore(self) -> None:
        """Put the module back into this state."""
        for part, attributes, buffers in self._parts:
            _put_back(vars(part), attributes)
            _put_back(part._buffers, buffers)
        with torch.no_grad():
            for value, content in self._contents:
                _fill(value, content)
        for weight, is_trained in self._trained:
            weight.requires_grad_(is_trained)
        for place, generator in enumerate(self._generators):
            _seed(generator, (torch.initial_seed() + place) % _SEEDS)


def _put_back(entries: dict[str, Any], first: dict[str, Any]) -> None:
    """Put the first entries back, and remove those that were added."""
    entries.update(first)
    for key in entries.keys() - first.keys() - _OF_TORCH:
        del entries[key]


def _can_change(value: Any) -> bool:
    """Return whether a value has a content that can be put back."""
    if isinstance(value, Tensor):
        return not value.requires_grad
    return isinstance(value, list | deque | dict | set)


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value.copy()


def _fill(value: Any, content: Any) -> None:
    """Put a content into the same object, because others may hold it."""
    if isinstance(value, Tensor):
        value.copy_(content)
        return
    value.clear()
    if isinstance(value, list | deque):
        value.extend(content)
    else:
        value.update(content)


def _seed(generator: Any, seed: int) -> None:
    """Begin a random generator anew; others may hold the same object."""
    if isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif isinstance(generator, random.Random):
        generator.seed(seed)
    else:
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
