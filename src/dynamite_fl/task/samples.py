"""Training and test data behind one interface: tensors, files on disk, datasets, or a list.

``as_samples`` takes what a user gives, checks it and returns ``Samples``. Batches are made when
they are needed, so that data on disk stays there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.task.batch import Batch
from dynamite_fl.task.dataset_samples import Collate, DatasetSamples, collate_by_default
from dynamite_fl.task.tensor_samples import tensor_samples


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

    def place(self, row: int) -> tuple[int, int]:
        """Return the client of a row, and the row's number in that client's data."""
        client = int(self.clients(np.array([row]))[0])
        return client, row - (int(self._ends[client]) - len(self.parts[client]))

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
        return tensor_samples(field, data)
    if isinstance(data, DataLoader):
        raise InvalidInput(
            f"{field} is a DataLoader: give its dataset, because a controller chooses batch sizes; "
            "a collate_fn of its own is Task.collate_fn"
        )
    if isinstance(data, IterableDataset):
        raise InvalidInput(
            f"{field} is an IterableDataset, of which no single sample can be loaded: give a "
            "dataset with __getitem__ and __len__, or a pair (inputs, targets)"
        )
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise InvalidInput(
            f"{field} is a {type(data).__name__}: give a pair (inputs, targets), a dataset with "
            "__getitem__ and __len__, or a list with one of these for each client"
        )
    if isinstance(data, Mapping):
        raise InvalidInput(
            f"{field} is a {type(data).__name__}: give a pair (inputs, targets), or one of the "
            "datasets that it holds, such as data['train']"
        )
    if isinstance(data, Tensor | np.ndarray | str):
        raise InvalidInput(
            f"{field} is a {type(data).__name__} without targets: give a pair (inputs, targets)"
        )
    if len(data) == 0:
        raise InvalidInput(f"{field} is empty: it needs at least one sample")
    return DatasetSamples(data, collate or collate_by_default)


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
    is_sample = isinstance(data, Mapping) or isinstance(last, int | float | str | np.generic)
    is_sample |= isinstance(last, Tensor) and last.dim() == 0
    if isinstance(data, list) or is_sample:
        kind = "one sample" if is_sample else "a list"
        raise InvalidInput(
            f"{field} is a list, which must have one dataset for each client, but {field}[{client}]"
            f" is {kind}: give (inputs, targets), or a dataset with __getitem__ and __len__"
        )
    return as_samples(f"{field}[{client}]", data, collate)
