"""Training and test data behind one interface: tensors, files on disk, datasets, or a list.

``as_samples`` takes what a user gives, checks it and returns ``Samples``. Batches are made when
they are needed, so that data on disk stays there.
"""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import default_collate

from dynamite_fl._random import random_stream
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.task.batch import TARGET_KEYS, Batch
from dynamite_fl.task.from_numpy import from_numpy
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.mapped_file import MappedFile, is_mapped

_ROWS_CHECKED = 4096  # of data above _CHECKED_BYTES, which takes too long to read
_CHECKED_BYTES = 256 * 1024**2
_BYTES_AT_ONCE = 16 * 1024**2  # that a check reads, so that data on disk needs little memory

Collate = Callable[[list[Any]], Batch]


class Samples(Protocol):
    """Samples by their row numbers."""

    def __len__(self) -> int: ...

    def batch(self, rows: IntArray) -> Batch:
        """Return the samples in these rows, collated."""
        ...

    def labels(self) -> NDArray[Any]:
        """Return the target of every sample, (D, ...).

        Raises:
            InvalidInput: The data does not say them.
        """
        ...


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


@dataclass(frozen=True, eq=False)
class DatasetSamples:
    """Samples of a map-style dataset, loaded when they are needed.

    Attributes:
        dataset: The dataset: it has a length, and ``dataset[i]`` is a sample. If it has a method
            ``__getitems__``, as Hugging Face's have, that loads all samples of a batch at once.
        collate: Makes a batch of a list of samples.
    """

    dataset: Any
    collate: Collate

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, rows: IntArray) -> Batch:
        """Load the samples in these rows and collate them; see ``Samples``."""
        places = rows.tolist()
        load_many = getattr(self.dataset, "__getitems__", None)
        if load_many is not None:
            return self.collate(load_many(places))
        return self.collate([self.dataset[row] for row in places])

    def labels(self) -> NDArray[Any]:
        """Return the labels that the dataset states, or read them off its samples."""
        known = _stated_labels(self.dataset)
        if known is None:
            with keyed_random(random_stream(0, "labels"), torch.device("cpu")):
                known = [_target_of(self.dataset[row]) for row in range(len(self))]
        try:
            return np.asarray(known)
        except (ValueError, TypeError):
            raise InvalidInput(
                "targets of the dataset have no common shape: give Task.labels, one for each sample"
            ) from None


@dataclass(frozen=True, eq=False)
class JoinedSamples:
    """Samples of several clients' datasets, one after the other.

    Attributes:
        parts: The samples of each client. The rows of a batch must be of one client.
    """

    parts: tuple[Samples, ...]

    @cached_property
    def _ends(self) -> IntArray:
        return np.cumsum([len(part) for part in self.parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def owners(self) -> IntArray:
        """The client of each sample, (D,)."""
        return np.repeat(np.arange(len(self.parts)), [len(part) for part in self.parts])

    def clients(self, rows: IntArray) -> IntArray:
        """Return the client of each of these rows."""
        return np.searchsorted(self._ends, rows, side="right")

    def batch(self, rows: IntArray) -> Batch:
        """Return the samples in these rows, which are all of one client; see ``Samples``."""
        client, *others = np.unique(self.clients(rows)).tolist()
        if others:
            raise InvalidInput(
                "a batch has samples of several clients, but the data is a list with one dataset "
                "for each client, and these may be of different kinds"
            )
        part = self.parts[client]
        return part.batch(rows - (int(self._ends[client]) - len(part)))

    def labels(self) -> NDArray[Any]:
        """Return the targets of all clients; see ``Samples``."""
        return np.concatenate([part.labels() for part in self.parts])


def as_samples(field: str, data: Any, collate: Collate | None = None) -> Samples:
    """Return data as ``Samples``.

    Args:
        field: The name of the data in messages.
        data: A pair of inputs and targets, a map-style dataset, or a list with one of these for
            each client.
        collate: Makes a batch of a list of samples. Default: torch's ``default_collate``.

    Raises:
        InvalidInput: The data is empty, of another kind, or has NaN; the message says where.
    """
    if isinstance(data, list):
        if not data:
            raise InvalidInput(f"{field} is an empty list: it needs one dataset for each client")
        parts = enumerate(data)
        return JoinedSamples(tuple(_of_client(field, *part, collate) for part in parts))
    if isinstance(data, tuple):
        return _tensor_samples(field, data)
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise InvalidInput(
            f"{field} is a {type(data).__name__}: give a pair (inputs, targets), a dataset with "
            "__getitem__ and __len__, or a list with one of these for each client"
        )
    if isinstance(data, Tensor | np.ndarray | Mapping | str):
        raise InvalidInput(
            f"{field} is a {type(data).__name__} without targets: give a pair (inputs, targets)"
        )
    if len(data) == 0:
        raise InvalidInput(f"{field} is empty: it needs at least one sample")
    return DatasetSamples(data, collate or _default_collate)


def split_rows(samples: Samples, rows: IntArray) -> Sequence[IntArray]:
    """Return rows in parts that batches can be made of: one for each client with its own data.

    Example:
        >>> pair = (np.zeros((2, 1)), np.zeros(2))
        >>> split_rows(as_samples("data", [pair, pair]), np.array([3, 0, 2]))
        [array([0]), array([3, 2])]
    """
    if not isinstance(samples, JoinedSamples):
        return [rows]
    clients = samples.clients(rows)
    order = np.argsort(clients, kind="stable")
    _, first = np.unique(clients[order], return_index=True)
    return np.split(rows[order], first[1:])


def _of_client(field: str, client: int, data: Any, collate: Collate | None) -> Samples:
    """Return one client's data; refuse a list of samples, which looks like a list of clients."""
    last = data[-1] if isinstance(data, tuple) and data else None
    is_sample = isinstance(last, int | float | str | np.generic) or (
        isinstance(last, Tensor) and last.dim() == 0
    )
    if isinstance(data, list) or is_sample:
        kind = "one sample" if is_sample else "a list"
        raise InvalidInput(
            f"{field} is a list, which must have one dataset for each client, but {field}[{client}]"
            f" is {kind}: give (inputs, targets), or a dataset with __getitem__ and __len__"
        )
    return as_samples(f"{field}[{client}]", data, collate)


def _tensor_samples(field: str, data: tuple[Any, ...]) -> TensorSamples:
    """Check a pair of inputs and targets."""
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


def _stated_labels(dataset: Any) -> Any:
    """Return the labels that a dataset states as a whole; None if it states none."""
    tensors = getattr(dataset, "tensors", None)  # torch's TensorDataset
    if isinstance(tensors, tuple) and tensors:
        return tensors[-1]
    indices, whole = getattr(dataset, "indices", None), getattr(dataset, "dataset", None)
    if indices is not None and whole is not None:  # torch's Subset
        labels = _stated_labels(whole)
        return None if labels is None else np.asarray(labels)[np.asarray(indices)]
    for name in ("targets", "labels"):  # torchvision's datasets
        values = getattr(dataset, name, None)
        if isinstance(values, Sized) and len(values) == len(dataset):  # not the names of classes
            return values
    columns = getattr(dataset, "column_names", None)  # Hugging Face's datasets
    if isinstance(columns, list):
        return next((dataset[key] for key in TARGET_KEYS if key in columns), None)
    return None


def _target_of(sample: Any) -> Any:
    if isinstance(sample, Mapping):
        return next((sample[key] for key in TARGET_KEYS if key in sample), None)
    return sample[-1]


def _with_tensors(sample: Any) -> Any:
    """Return a dict with its lists of numbers as tensors, which torch would collate by columns.

    Rows of Hugging Face's datasets hold such lists.
    """
    if not isinstance(sample, Mapping):
        return sample
    return {
        key: torch.tensor(value) if isinstance(value, list) and _is_numbers(value) else value
        for key, value in sample.items()
    }


def _is_numbers(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _default_collate(samples: list[Any]) -> Batch:
    """Collate samples as torch does; say what to do if their shapes differ."""
    try:
        batch = default_collate([_with_tensors(sample) for sample in samples])
    except RuntimeError as error:
        raise InvalidInput(
            f"samples of different shapes cannot be stacked: give Task.collate_fn ({error})"
        ) from None
    except TypeError as error:
        raise InvalidInput(
            f"samples cannot be made into tensors: give Task.collate_fn, or let the dataset return "
            f"tensors ({error})"
        ) from None
    return tuple(batch) if isinstance(batch, list) else batch
