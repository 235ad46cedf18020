"""A warning if the test data has classes that the training data lacks."""

import warnings
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.dataset_samples import DatasetSamples, stated_labels
from dynamite_fl.task.samples import JoinedSamples, Samples
from dynamite_fl.task.task import Task

_NAMED = 3  # labels that a message names


def warn_of_unseen_labels(task: Task) -> None:
    """Warn if test samples have labels that no training sample has.

    This happens if data that is sorted by class is split without shuffling it. Nothing is loaded
    for the comparison: it is made only if targets are labels and the data states all of them.

    Args:
        task: The task, with training and test data.
    """
    if not task.learns_classes:
        return
    trained, tested = _stated(task.train), _stated(task.test)
    if trained is None or tested is None:
        return
    unseen = np.setdiff1d(tested, trained)
    unseen = unseen[unseen >= 0]  # negative targets are ignored by losses, such as -100
    if unseen.size:
        samples = f"{np.isin(tested, unseen).sum()} of {tested.size} test samples"
        more = f" and {unseen.size - _NAMED} more" if unseen.size > _NAMED else ""
        names = ", ".join(str(label) for label in unseen[:_NAMED].tolist()) + more
        warnings.warn(
            f"{samples} have a label that no training sample has ({names}), so that the model "
            "cannot learn it: if the data is sorted by class, shuffle it before you split it into "
            "training and test data",
            stacklevel=2,
        )


def _stated(samples: Samples) -> NDArray[Any] | None:
    """Return the labels that data states as a whole, (D,); None if it states no whole numbers."""
    if isinstance(samples, JoinedSamples):
        parts = [_stated(part) for part in samples.parts]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None
    with suppress(InvalidInput, ValueError, TypeError):
        dataset = samples.dataset if isinstance(samples, DatasetSamples) else None
        labels = np.asarray(samples.labels() if dataset is None else stated_labels(dataset))
        return labels if labels.ndim == 1 and labels.dtype.kind in "iu" else None
    return None
