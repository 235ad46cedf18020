"""Records to files and back, to the bit and without executing anything that a file says.

A record is a dataclass of numbers, words, arrays, tensors and such dataclasses. Arrays go into
a safetensors file, all else into its header as JSON; reading takes the types from the code.
"""

import json
import types
import typing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load, save
from torch import Tensor

from dynamite_fl.files import write_bytes_atomically

Record = TypeVar("Record")


def save_record(path: Path, record: Any) -> None:
    """Write a record to a file, which is either whole or not there."""
    write_bytes_atomically(path, to_bytes(record))


def to_bytes(record: Any) -> bytes:
    """A record as its file has it."""
    tensors: dict[str, Tensor] = {}
    header = json.dumps(_pack(record, "", tensors))
    return save(tensors, metadata={"record": header})


def from_bytes(data: bytes, kind: type[Record]) -> Record:
    """The record that ``to_bytes`` was given.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Step:
        ...     size: float
        ...     weights: Tensor
        >>> from_bytes(to_bytes(Step(0.5, torch.ones(2))), Step)
        Step(size=0.5, weights=tensor([1., 1.]))
    """
    size = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["record"])
    tensors = {name: tensor.clone() for name, tensor in load(data).items()}  # aligned by torch
    record: Record = _unpack(kind, header, tensors, None)
    return record


def save_model(path: Path, weights: dict[str, Tensor]) -> None:
    """Write weights by their names, as safetensors users expect them."""
    contiguous = {name: weight.detach().clone() for name, weight in weights.items()}
    write_bytes_atomically(path, save(contiguous))


def load_record(path: Path, kind: type[Record], *, unknown: type | None = None) -> Record:
    """The record in a file; ``unknown`` is the type of what is declared as ``Any``.

    Raises:
        ValueError: The file is not one of ours, or is damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["record"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        record: Record = _unpack(kind, header, tensors, unknown)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    except Exception as error:
        raise ValueError(f"{path} is damaged or of another version: {error}") from None
    return record


def _pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """What JSON can hold of a value; its arrays are put into tensors under their path."""
    if is_dataclass(value):
        return {
            field.name: _pack(getattr(value, field.name), f"{name}.{field.name}", tensors)
            for field in fields(value)
        }
    if isinstance(value, tuple | list):
        return [_pack(each, f"{name}.{place}", tensors) for place, each in enumerate(value)]
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(np.array(value))  # a copy: ours cannot be written to
        return {"numpy": name}
    if isinstance(value, Tensor):
        tensors[name] = value.detach().clone()  # records may share one
        return {"torch": name}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, which no checkpoint can hold")


def _unpack(kind: Any, packed: Any, tensors: dict[str, Tensor], unknown: type | None) -> Any:
    if kind is Any:
        kind = unknown
    if isinstance(packed, dict):
        if set(packed) == {"numpy"}:
            return tensors[packed["numpy"]].numpy()
        if set(packed) == {"torch"}:
            return tensors[packed["torch"]]
        (record,) = (
            each for each in _choices(kind) if isinstance(each, type) and is_dataclass(each)
        )
        if packed.keys() != {field.name for field in fields(record)}:
            raise ValueError(f"the fields of {record.__name__} are others")
        hints = typing.get_type_hints(record)
        made = object.__new__(record)
        for name, value in packed.items():
            object.__setattr__(made, name, _unpack(hints[name], value, tensors, unknown))
        return made
    if isinstance(packed, list):
        (sequence,) = (each for each in _choices(kind) if typing.get_origin(each) in (tuple, list))
        item = typing.get_args(sequence)[0]
        return typing.get_origin(sequence)(_unpack(item, each, tensors, unknown) for each in packed)
    return packed


def _choices(kind: Any) -> tuple[Any, ...]:
    """The types that a hint such as ``A | None`` admits."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)
