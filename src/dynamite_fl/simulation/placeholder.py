"""Placeholders of client states whose tensors stay in a worker process."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from dynamite_fl.client.messages import ClientState


def placeholder(state: ClientState) -> ClientState:
    """Return the state without the data of its tensors, which stays with the worker.

    A state without tensors is returned as it is.
    """
    without_data = {id(tensor): tensor.to("meta") for tensor in _tensors(state)}
    return copy.deepcopy(state, without_data) if without_data else state


def is_placeholder(state: ClientState) -> bool:
    """Return whether a state is a ``placeholder`` and lacks the data of its tensors."""
    return any(tensor.is_meta for tensor in _tensors(state))


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield all tensors in a value, which may consist of dataclasses, mappings and sequences."""
    if isinstance(value, Tensor):
        yield value
    elif is_dataclass(value):
        yield from _tensors([getattr(value, field.name) for field in fields(value)])
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
