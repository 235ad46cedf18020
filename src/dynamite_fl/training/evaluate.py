"""The accuracy and loss of a global model on the test data and on arrived samples."""

import numpy as np
import torch
from torch import Tensor

from dynamite_fl._random import random_stream
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.records import IntArray
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.task import Task
from dynamite_fl.training.engine import Evaluation

_BATCH = 250  # samples; larger batches take longer, as they do not fit into a cache
_STREAM_SAMPLES = 1000  # samples that the loss of a stream is measured on
_STREAM_CLIENTS = 200  # clients, at most, that these samples are drawn from


def evaluate(model: FlatModel, weights: Tensor, stream_rows: IntArray | None = None) -> Evaluation:
    """Measure a model on the test data and, if given, on rows of the training data.

    Args:
        model: The model of the task.
        weights: The weights of the model, as one flat tensor.
        stream_rows: The rows of the training data to compute ``stream_loss`` on. It is None if
            there are no rows.
    """
    task = model.task
    correct, losses = _per_sample(model, weights, task.test_inputs, task.test_targets)
    stream_loss = None
    if stream_rows is not None and stream_rows.size:
        rows = torch.from_numpy(stream_rows)
        inputs, targets = task.train_inputs[rows], task.train_targets[rows]
        _, stream_losses = _per_sample(model, weights, inputs, targets)
        stream_loss = float(stream_losses.double().mean())
    return Evaluation(
        accuracy=float(correct.double().mean()),
        loss=float(losses.double().mean()),
        class_accuracy=_by_class(task, correct),
        stream_loss=stream_loss,
    )


def arrived_sample(streams: Streams, clients: int, seed: int, round_index: int) -> IntArray:
    """Draw rows, with replacement, from all samples that have arrived by a round.

    Every arrived sample has the same probability. If there are more than 200 clients, the rows
    are drawn from the samples of 200 random ones.

    Args:
        streams: The streams of the clients.
        clients: The number of clients.
        seed: The seed of the draw.
        round_index: The round, counted from 1.

    Returns:
        1000 rows of the training data; none if no sample has arrived.
    """
    random = random_stream(seed, "evaluation", round_index)
    sampled = random.permutation(clients)[:_STREAM_CLIENTS]
    seen = streams.seen(sampled, round_index)
    if not seen.sum():
        return np.empty(0, dtype=np.int64)
    drawn = random.choice(sampled.size, _STREAM_SAMPLES, p=seen / seen.sum())
    number = (random.random(_STREAM_SAMPLES) * seen[drawn]).astype(np.int64)
    rows = np.empty(_STREAM_SAMPLES, dtype=np.int64)
    for position in np.unique(drawn):
        is_of_client = drawn == position
        rows[is_of_client] = streams.history(int(sampled[position]))[number[is_of_client]]
    return rows


def _per_sample(
    model: FlatModel, weights: Tensor, inputs: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Return whether each output is correct, and the loss of each sample without the penalty."""
    correct, losses = [], []
    with torch.no_grad():
        batches = zip(torch.split(inputs, _BATCH), torch.split(targets, _BATCH), strict=True)
        for batch_inputs, batch_targets in batches:
            outputs = model.outputs(weights, batch_inputs)
            correct.append(model.task.correct(outputs, batch_targets))
            losses.append(model.task.loss(outputs, batch_targets))
    return torch.cat(correct), torch.cat(losses)


def _by_class(task: Task, correct: Tensor) -> dict[int, float]:
    """Return the accuracy of each class; empty if targets are not labels."""
    targets = task.test_targets
    if targets.dim() != 1 or targets.is_floating_point():
        return {}
    labels = torch.unique(targets).tolist()
    return {label: float(correct[targets == label].double().mean()) for label in labels}
