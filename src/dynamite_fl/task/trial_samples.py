"""A few samples to try a task on."""

import warnings
from collections.abc import Iterator

import numpy as np
import torch

from dynamite_fl._random import random_stream
from dynamite_fl.records import IntArray
from dynamite_fl.task.batch import Batch, tensors_in
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.mapped_file import MappedFile
from dynamite_fl.task.mistakes import explained
from dynamite_fl.task.samples import JoinedSamples, Samples, split_rows
from dynamite_fl.task.tensor_samples import TensorSamples

_AT_ONCE = 250  # samples that are computed together


def trial_batches(samples: Samples, field: str) -> list[Batch]:
    """Load two samples of the first client and three of the last one.

    They are loaded twice, because they must be the same under the same seed.

    Args:
        samples: The samples.
        field: The field of the task that they are from, for messages.
    """
    loaded: list[list[Batch]] = []
    for _ in range(2):
        action = explained(f"loading two samples of Task.{field}")
        with action, keyed_random(random_stream(0, "trial"), torch.device("cpu")):
            loaded.append([samples.batch(rows) for rows in _trial_rows(samples)])
    pairs = zip(*(tensors_in(batches) for batches in loaded), strict=False)
    if not all(torch.equal(first, again) for first, again in pairs):
        warnings.warn(
            f"Task.{field} draws random numbers from a generator of its own, so that results "
            "depend on the number of workers and on resumes: draw from torch, numpy.random or "
            "random without a generator, which are seeded for each client and round",
            stacklevel=2,
        )
    return loaded[0]


def all_batches(samples: Samples) -> Iterator[Batch]:
    """Yield all samples in batches, as an evaluation computes them."""
    for rows in split_rows(samples, np.arange(len(samples))):
        for some in np.array_split(rows, -(-rows.size // _AT_ONCE)):
            yield samples.batch(some)


def _trial_rows(samples: Samples) -> list[IntArray]:
    """Return two rows of the first client and three of the last one; some may be the same."""
    parts = samples.parts if isinstance(samples, JoinedSamples) else [samples]
    last = np.arange(len(samples) - len(parts[-1]), len(samples))
    return [
        np.array(_lowest_and_highest(parts[0])),
        last[[*_lowest_and_highest(parts[-1]), -1]],
    ]


def _lowest_and_highest(samples: Samples) -> list[int]:
    """Return the rows of the smallest and the largest target; the first two if not known."""
    targets = samples.targets if isinstance(samples, TensorSamples) else None
    if isinstance(targets, MappedFile):
        targets = targets.array
    if targets is not None and not isinstance(targets, tuple | dict) and targets.ndim == 1:
        numbers = np.asarray(targets if isinstance(targets, np.ndarray) else targets.cpu().float())
        return [int(numbers.argmin()), int(numbers.argmax())]
    return [0, min(1, len(samples) - 1)]
