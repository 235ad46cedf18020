"""What is wrong with a client's data if its model has become NaN."""

from collections.abc import Sequence

import numpy as np
import torch

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.task.batch import tensors_in
from dynamite_fl.task.samples import JoinedSamples, Samples


def refuse_unsound_samples(client: int, samples: Samples, batches: Sequence[IntArray]) -> None:
    """Refuse samples with NaN or infinity.

    Tensors are looked through when a task is made. Datasets are not, because that would load all of
    their samples, nor are large files. So this is called when a round has ended in a model that is
    not finite.

    Args:
        client: The client's place in the fleet, for the message.
        samples: The samples that rows point into.
        batches: The rows of the batches that the model was trained on.

    Raises:
        InvalidInput: A sample has NaN or infinity.

    Example:
        >>> from dynamite_fl.task.dataset_samples import DatasetSamples, collate_by_default
        >>> samples = DatasetSamples([(1.0, 0), (float("nan"), 1)], collate_by_default)
        >>> refuse_unsound_samples(3, samples, [np.array([0, 1])])
        Traceback (most recent call last):
        dynamite_fl.errors.InvalidInput: Task.train_data[1], a sample of client 3, has NaN or \
infinity, so that the model became NaN: remove or replace such values
    """
    for row in np.unique(np.concatenate(batches)):
        for tensor in tensors_in(samples.batch(row[None])):
            if not bool(torch.isfinite(tensor).all()):
                place = samples.place(int(row)) if isinstance(samples, JoinedSamples) else (row,)
                numbers = "".join(f"[{number}]" for number in place)
                raise InvalidInput(
                    f"Task.train_data{numbers}, a sample of client {client}, has NaN or infinity, "
                    "so that the model became NaN: remove or replace such values"
                )
