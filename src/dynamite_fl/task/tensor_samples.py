"""Samples whose inputs and targets are rows of tensors, in memory or in a file on disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.task.batch import Batch
from dynamite_fl.task.from_numpy import from_numpy
from dynamite_fl.task.mapped_file import MappedFile, is_mapped

_ROWS_CHECKED = 4096  # of data above _CHECKED_BYTES, which takes too long to read
_CHECKED_BYTES = 256 * 1024**2
_BYTES_AT_ONCE = 16 * 1024**2  # that a check reads, so that data on disk needs little memory


@dataclass(frozen=True, eq=False)
class TensorSamples:
    """Samples whose inputs and targets are rows of tensors, in memory or in a file on disk.

    Attributes:
        inputs: The inputs (D, ...), or a tuple or dict of them for a model of several inputs.
        targets: The targets, (D, ...), or a tuple or dict of them.

    Example:
        >>> samples = TensorSamples(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 1, 0]))
        >>> samples.batch(np.array([2, 0]))
        (tensor([[3.],
                [1.]]), tensor([0, 0]))
    """

    inputs: Any
    targets: Any

    def __len__(self) -> int:
        return len(_first_column(self.targets))

    @property
    def nbytes(self) -> int:
        """The size of all inputs and targets."""
        return sum(column.nbytes for column in _all_columns(self.inputs, self.targets))

    def batch(self, rows: IntArray) -> Batch:
        """Return the samples in these rows; see ``Samples``."""
        return _take(self.inputs, rows), _take(self.targets, rows)

    def labels(self) -> NDArray[Any]:
        """Return the targets; see ``Samples``."""
        if isinstance(self.targets, MappedFile):
            return self.targets.array
        if not isinstance(self.targets, Tensor):
            raise InvalidInput("targets have several parts: give Task.labels, one for each sample")
        return np.asarray(self.targets.cpu().numpy())


def tensor_samples(field: str, data: tuple[Any, ...]) -> TensorSamples:
    """Return a pair of inputs and targets as samples.

    Args:
        field: The name of the data in messages.
        data: The pair.

    Raises:
        InvalidInput: The pair has no samples, no numbers, NaN, or not one target for each input.
    """
    if len(data) != 2:
        raise InvalidInput(
            f"{field} is a tuple of {len(data)} entries: give (inputs, targets); several inputs "
            "are one tuple, ((first, second), targets)"
        )
    inputs = _columns(f"{field} inputs", data[0])
    targets = _columns(f"{field} targets", data[1])
    samples = len(_first_column(targets))
    for column in _all_columns(inputs, targets):
        if len(column) != samples:
            raise InvalidInput(
                f"{field} has {len(column)} inputs, but {samples} targets: each input needs one "
                "target"
            )
    return TensorSamples(inputs, targets)


def _columns(field: str, value: Any) -> Any:
    """Return tensors for arrays and tensors in a nest; refuse what has no rows."""
    if _is_nest(value) and not value:
        raise InvalidInput(f"{field} are an empty {type(value).__name__}")
    if isinstance(value, Mapping):
        return {key: _columns(f"{field}[{key!r}]", part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_columns(f"{field}[{place}]", part) for place, part in enumerate(value))
    if isinstance(value, np.memmap) and value.size and is_mapped(value):
        column: Tensor | MappedFile = MappedFile(value)
    elif isinstance(value, np.ndarray):
        column = _from_numpy(field, value)
    elif isinstance(value, Tensor):
        if value.layout != torch.strided:
            raise InvalidInput(f"{field} are a sparse tensor: give a dense one")
        column = value.detach()
    else:
        raise InvalidInput(f"{field} are a {type(value).__name__}: give a torch.Tensor or an array")
    return _checked(field, column)


def _from_numpy(field: str, array: NDArray[Any]) -> Tensor:
    try:
        return from_numpy(array)
    except TypeError:
        raise InvalidInput(f"{field} are {array.dtype}, which are no numbers") from None


def _checked(field: str, column: "Tensor | MappedFile") -> "Tensor | MappedFile":
    """Return a column; refuse one without samples, and one with NaN or infinity."""
    if isinstance(column, Tensor) and column.dim() == 0:
        raise InvalidInput(f"{field} are one number: they must have a row for each sample")
    if len(column) == 0 or 0 in column.shape:
        raise InvalidInput(f"{field} are empty: they need at least one sample")
    rows, row_bytes = np.arange(len(column)), max(column.nbytes // len(column), 1)
    if column.nbytes > _CHECKED_BYTES:
        most = min(_ROWS_CHECKED, max(16 * _BYTES_AT_ONCE // row_bytes, 2))
        rows = np.linspace(0, len(column) - 1, most).astype(np.int64)
    for part in np.array_split(rows, -(-rows.size * row_bytes // _BYTES_AT_ONCE)):
        values = column[torch.from_numpy(part)]
        if not values.is_floating_point():
            return column
        # NaN if any value is NaN
        if not torch.isfinite(torch.stack(torch.aminmax(values))).all():
            finite = torch.isfinite(values).reshape(len(values), -1).all(dim=1)
            row = int(part[int(finite.logical_not().nonzero()[0])])
            raise InvalidInput(f"{field}[{row}] has NaN or infinity: remove or replace such values")
    return column


def _take(nest: Any, rows: IntArray) -> Any:
    places = torch.from_numpy(np.array(rows, dtype=np.int64))  # a copy: ours may be read-only
    if isinstance(nest, Tensor | MappedFile):
        return nest[places]
    if isinstance(nest, Mapping):
        return {key: _take(value, rows) for key, value in nest.items()}
    return tuple(_take(value, rows) for value in nest)


def _is_nest(value: Any) -> bool:
    return isinstance(value, tuple | Mapping)


def _all_columns(*nests: Any) -> "list[Tensor | MappedFile]":
    columns: list[Tensor | MappedFile] = []
    for nest in nests:
        if isinstance(nest, Tensor | MappedFile):
            columns.append(nest)
        else:
            columns += _all_columns(*(nest.values() if isinstance(nest, Mapping) else nest))
    return columns


def _first_column(nest: Any) -> "Tensor | MappedFile":
    return _all_columns(nest)[0]
