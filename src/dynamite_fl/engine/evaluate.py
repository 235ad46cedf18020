"""How good is a global model? On the test data, and on what has arrived so far."""

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.chance import dice
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.engine.engine import Evaluation
from dynamite_fl.records import IntArray
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.task import Task

_AT_ONCE = 250  # samples; more take longer, as they no longer fit a cache
_STREAM_SAMPLES = 1000
_STREAM_CLIENTS = 200


def evaluate(model: FlatModel, weights: Tensor, stream_rows: IntArray | None = None) -> Evaluation:
    """Accuracy and loss on the test data, and the loss on some rows of the training data."""
    task = model.task
    correct, losses = _judge(model, weights, task.test_inputs, task.test_targets)
    stream_loss = None
    if stream_rows is not None and stream_rows.size:
        where = torch.from_numpy(stream_rows)
        _, found = _judge(model, weights, task.train_inputs[where], task.train_targets[where])
        stream_loss = float(found.double().mean())
    return Evaluation(
        accuracy=float(correct.double().mean()),
        loss=float(losses.double().mean()),
        class_accuracy=_by_class(task, correct),
        stream_loss=stream_loss,
    )


def arrived_sample(streams: Streams, clients: int, seed: int, round_index: int) -> IntArray:
    """Some of all samples that have arrived up to a round, each of them alike, as rows.

    Where clients are many, only some of them are asked.
    """
    random = dice(seed, "evaluation", round_index)
    asked = random.permutation(clients)[:_STREAM_CLIENTS]
    seen = streams.seen(asked, round_index)
    if not seen.sum():
        return np.empty(0, dtype=np.int64)
    drawn = random.choice(asked.size, _STREAM_SAMPLES, p=seen / seen.sum())
    number = (random.random(_STREAM_SAMPLES) * seen[drawn]).astype(np.int64)
    rows = np.empty(_STREAM_SAMPLES, dtype=np.int64)
    for place in np.unique(drawn):
        mine = drawn == place
        rows[mine] = streams.history(int(asked[place]))[number[mine]]
    return rows


def _judge(
    model: FlatModel, weights: Tensor, inputs: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Of each sample whether it is right, and its loss, without the penalty."""
    correct, losses = [], []
    with torch.no_grad():
        for x, y in zip(torch.split(inputs, _AT_ONCE), torch.split(targets, _AT_ONCE), strict=True):
            outputs = model.outputs(weights, x)
            correct.append(model.task.correct(outputs, y))
            losses.append(model.task.loss(outputs, y))
    return torch.cat(correct), torch.cat(losses)


def _by_class(task: Task, correct: Tensor) -> dict[int, float]:
    """The accuracy of each class, where targets are labels."""
    targets = task.test_targets
    if targets.dim() != 1 or targets.is_floating_point():
        return {}
    labels = torch.unique(targets).tolist()
    return {label: float(correct[targets == label].double().mean()) for label in labels}
