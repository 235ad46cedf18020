"""Records as bytes, for checkpoints and messages: exact, and nothing that is read is executed.

A record is a dataclass of numbers, text, arrays, tensors and such dataclasses. Arrays go into the
safetensors format and everything else into its header as JSON. Reading takes names and types from
the code and refuses whatever does not fit them.
"""

import hashlib
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from dynamite_fl._atomic import write_bytes_atomically
from dynamite_fl.errors import InvalidInput, RunFolderError

Record = TypeVar("Record")


def save_record(
    path: Path, record: Any, *, about: Mapping[str, Any] | None = None, keep_as: Path | None = None
) -> None:
    """Write a record to a file atomically, with a checksum.

    Args:
        path: The file.
        record: The record.
        about: Values for JSON that can be read from the file's header without the record.
        keep_as: The path under which the file's former content is kept. Default: nowhere.
    """
    tensors: dict[str, Tensor] = {}
    content = {"record": _pack(record, "", tensors), "about": dict(about or {})}
    checked = json.dumps({**content, "sha256": _checksum(content, tensors)})
    write_bytes_atomically(path, save(tensors, metadata={"checked": checked}), keep_as=keep_as)


def to_bytes(record: Any) -> bytes:
    """Return a record as the bytes of a message."""
    tensors: dict[str, Tensor] = {}
    header = json.dumps(_pack(record, "", tensors))
    return save(tensors, metadata={"record": header})


def from_bytes(data: bytes, kind: type[Record]) -> Record:
    """Return the record that ``to_bytes`` was given.

    Raises:
        ValueError: The bytes are no such record; the message names the field.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Step:
        ...     size: float
        ...     weights: Tensor
        >>> from_bytes(to_bytes(Step(0.5, torch.ones(2))), Step)
        Step(size=0.5, weights=tensor([1., 1.]))
    """
    try:
        size = int.from_bytes(data[:8], "little")
        header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["record"])
        tensors = {name: tensor.clone() for name, tensor in load(data).items()}  # aligned by torch
    except Exception as error:  # a stranger may have sent any bytes
        raise ValueError(f"the bytes are damaged: {error}") from None
    record: Record = _unpack(kind, header, "", tensors, None)
    return record


def save_model(path: Path, weights: dict[str, Tensor]) -> None:
    """Write weights by their names, in the form that users of safetensors expect.

    Entries that are no tensors are left out, as that form cannot hold them.
    """
    tensors = {name: value for name, value in weights.items() if isinstance(value, Tensor)}
    write_bytes_atomically(path, save({name: _row_by_row(tensors[name]) for name in tensors}))


def load_record(path: Path, kind: type[Record], *, unknown: type | None = None) -> Record:
    """Read the record in a file.

    Args:
        path: The file.
        kind: The record's type.
        unknown: The type of fields that are declared as ``Any``.

    Raises:
        RunFolderError: The file is damaged, or of another version.
    """
    if not path.is_file():  # to open a pipe would mean to wait
        raise RunFolderError(f"{path} is missing or not a file")
    try:
        with safe_open(path, framework="pt") as file:
            content = json.loads((file.metadata() or {})["checked"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if content.pop("sha256") != _checksum(content, tensors):
            raise ValueError("its checksum is wrong")
        record: Record = _unpack(kind, content["record"], "", tensors, unknown)
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from None
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunFolderError(f"{path} is damaged or of another version: {error}") from None
    return record


def _checksum(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Return a checksum of all that a file holds."""
    checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        checksum.update(_row_by_row(tensor).reshape(-1).view(torch.uint8).numpy().data)
    return checksum.hexdigest()


def _pack(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Return what JSON can hold of a value; put its arrays into ``tensors`` under their path."""
    if is_dataclass(value):
        return {
            field.name: _pack(getattr(value, field.name), f"{name}.{field.name}", tensors)
            for field in fields(value)
        }
    if isinstance(value, tuple | list):
        return [_pack(part, f"{name}.{place}", tensors) for place, part in enumerate(value)]
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(np.array(value))  # a copy: ours cannot be written to
        return {"numpy": name}
    if isinstance(value, Tensor):
        tensors[name] = _row_by_row(value)
        return {"torch": name}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidInput(
        f"{name.lstrip('.')} is a {type(value).__name__}, which no checkpoint can hold: use "
        "numbers, text, arrays, tuples and frozen dataclasses"
    )


def _row_by_row(tensor: Tensor) -> Tensor:
    """Return a copy, because records may share a tensor, in the order that files have."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _unpack(
    kind: Any, packed: Any, name: str, tensors: dict[str, Tensor], unknown: type | None
) -> Any:
    """Return the value of a type; refuse what was packed from another type.

    Args:
        kind: The type, as the record's class declares it.
        packed: What ``_pack`` returned.
        name: The path of the field, for errors.
        tensors: All arrays, by their paths.
        unknown: The type of fields that are declared as ``Any``.
    """
    choices = _choices(unknown if kind is Any else kind)
    if isinstance(packed, dict):
        if set(packed) in ({"numpy"}, {"torch"}):
            return _unpack_array(choices, packed, name, tensors)
        return _unpack_record(choices, packed, name, tensors, unknown)
    if isinstance(packed, list):
        for choice in choices:
            if typing.get_origin(choice) in (tuple, list):
                item = typing.get_args(choice)[0]
                items = enumerate(packed)
                return typing.get_origin(choice)(
                    _unpack(item, part, f"{name}.{place}", tensors, unknown)
                    for place, part in items
                )
    elif type(packed) in choices:
        return packed
    elif type(packed) is int and float in choices:
        _check_float(name, packed)
        return packed  # as it was saved, so that it is saved again alike
    raise ValueError(f"{name.lstrip('.')} is of another type: {type(packed).__name__}")


def _unpack_array(
    choices: Sequence[Any], packed: dict[str, Any], name: str, tensors: dict[str, Tensor]
) -> Any:
    ((kind, key),) = packed.items()
    wanted = np.ndarray if kind == "numpy" else Tensor
    fits = any(wanted in (choice, typing.get_origin(choice)) for choice in choices)
    if not fits or not isinstance(key, str) or key not in tensors:
        raise ValueError(f"{name.lstrip('.')} is of another type, or its array is missing")
    try:
        return tensors[key].numpy() if kind == "numpy" else tensors[key]
    except TypeError as error:  # NumPy has no such numbers
        raise ValueError(f"{name.lstrip('.')}: {error}") from None


def _unpack_record(
    choices: Sequence[Any],
    packed: dict[str, Any],
    name: str,
    tensors: dict[str, Tensor],
    unknown: type | None,
) -> Any:
    classes = [choice for choice in choices if isinstance(choice, type) and is_dataclass(choice)]
    if len(classes) != 1:
        raise ValueError(f"{name.lstrip('.')} is of another type")
    (record,) = classes
    if packed.keys() != {field.name for field in fields(record)}:
        raise ValueError(f"the fields of {record.__name__} differ")
    hints = typing.get_type_hints(record)
    made = object.__new__(record)
    for key, value in packed.items():
        unpacked = _unpack(hints[key], value, f"{name}.{key}", tensors, unknown)
        object.__setattr__(made, key, unpacked)
    return made


def _check_float(name: str, value: int) -> None:
    """Refuse a whole number that is too large for a float."""
    try:
        float(value)
    except OverflowError:
        raise ValueError(f"{name.lstrip('.')} is a number of {value.bit_length()} bits") from None


def _choices(kind: Any) -> tuple[Any, ...]:
    """Return the types that a hint such as ``A | None`` admits."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (type(None) if kind is None else kind,)
