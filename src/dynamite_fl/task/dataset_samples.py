"""Samples of a map-style dataset, such as torch's or Hugging Face's."""

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import default_collate

from dynamite_fl._random import random_stream
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.task.batch import TARGET_KEYS, Batch
from dynamite_fl.task.keyed_random import keyed_random

Collate = Callable[[list[Any]], Batch]


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
        known = stated_labels(self.dataset)
        if known is None:
            with keyed_random(random_stream(0, "labels"), torch.device("cpu")):
                known = [_target_of(self.dataset[row]) for row in range(len(self))]
        try:
            return np.asarray(known)
        except (ValueError, TypeError):
            raise InvalidInput(
                "targets of the dataset have no common shape: give Task.labels, one for each sample"
            ) from None


def stated_labels(dataset: Any) -> Any:
    """Return the labels that a dataset states as a whole; None if it states none."""
    tensors = getattr(dataset, "tensors", None)  # torch's TensorDataset
    if isinstance(tensors, tuple) and tensors:
        return tensors[-1]
    indices, whole = getattr(dataset, "indices", None), getattr(dataset, "dataset", None)
    if indices is not None and whole is not None:  # torch's Subset
        labels = stated_labels(whole)
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


def collate_by_default(samples: list[Any]) -> Batch:
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
