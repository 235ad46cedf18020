"""The metrics and the loss of a global model on the test data and on arrived samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynamite_fl._load import user_code
from dynamite_fl._random import random_stream
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.records import IntArray
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.batch import Batch, map_tensors, to_device
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.metrics import Metric
from dynamite_fl.task.samples import JoinedSamples, Samples, split_rows
from dynamite_fl.task.task import Task
from dynamite_fl.training.engine import Evaluation

_BATCH = 250  # samples; larger batches take longer, as they do not fit into a cache
_STREAM_SAMPLES = 1000  # samples that the loss of a stream is measured on
_STREAM_CLIENTS = 200  # clients, at most, that these samples are drawn from


def evaluate(
    model: FlatModel,
    weights: Tensor,
    stream_rows: IntArray | None = None,
    local_buffers: Sequence[Tensor | None] | None = None,
) -> Evaluation:
    """Measure a model on the test data and, if given, on rows of the training data.

    The model is in evaluation mode. Random numbers that it draws all the same are always the same.

    Args:
        model: The model of the task.
        weights: The model's vector of weights and buffers, (d,).
        stream_rows: The rows of the training data to compute ``stream_loss`` on. It is None if
            there are no rows.
        local_buffers: The buffers that each client keeps to itself, for its own test data. Default:
            clients keep none.
    """
    model.load(weights)
    model.module.eval()
    task = model.task
    with keyed_random(random_stream(0, "evaluation"), model.device), torch.no_grad():
        parts = []
        for client, rows in enumerate(split_rows(task.test, np.arange(len(task.test)))):
            if local_buffers is not None:
                model.load(weights, local_buffers[client])
                model.module.eval()
            parts.append(_outputs(model, task.test, rows))
        stream_loss = None
        if stream_rows is not None and stream_rows.size:
            arrived = split_rows(task.train, stream_rows)
            stream_loss = _joined([_outputs(model, task.train, rows) for rows in arrived]).mean_loss
        everything = _joined(parts)
        return Evaluation(
            loss=everything.mean_loss,
            metrics=_metrics(task, everything),
            class_accuracy=_by_class(task, everything),
            client_metrics=_client_metrics(task, parts),
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


@dataclass(frozen=True, eq=False)
class _Outputs:
    """A model's outputs, targets and losses, one entry for each batch."""

    outputs: list[Any]
    targets: list[Any]
    losses: list[Tensor]

    @property
    def mean_loss(self) -> float:
        return float(torch.cat(self.losses).mean())


def _outputs(model: FlatModel, samples: Samples, rows: IntArray) -> _Outputs:
    """Compute the outputs and losses of the samples in these rows."""
    result = _Outputs([], [], [])
    for batch_rows in np.split(rows, np.arange(_BATCH, rows.size, _BATCH)):
        with user_code("an evaluation"):  # without autocast, as a user of the saved model has it
            batch = to_device(samples.batch(batch_rows), model.device)
            outputs, targets, losses = _forward(model, batch)
        result.outputs.append(map_tensors(_on_cpu, outputs))
        result.targets.append(map_tensors(_on_cpu, targets))
        result.losses.append(losses.cpu().double().expand(batch_rows.size))
    return result


def _forward(model: FlatModel, batch: Batch) -> tuple[Any, Any, Tensor]:
    """Return outputs, targets, and the mean loss (1,) or the loss of each sample (b,)."""
    task = model.task
    if task.loss is not None:
        outputs, targets = task.outputs_and_targets(model.module, batch)
        return outputs, targets, task.loss(outputs, targets).reshape(-1)
    outputs, targets = (), ()
    if task.all_metrics:
        outputs, targets = task.outputs_and_targets(model.module, batch)
    return outputs, targets, task.batch_loss(model.module, batch)[None]


def _on_cpu(tensor: Tensor) -> Tensor:
    is_short = tensor.dtype in (torch.float16, torch.bfloat16)  # which NumPy and metrics lack
    return tensor.cpu().float() if is_short else tensor.cpu()


def _joined(parts: Sequence[_Outputs]) -> _Outputs:
    """Return the batches of all parts, one after the other."""
    return _Outputs(
        [outputs for part in parts for outputs in part.outputs],
        [targets for part in parts for targets in part.targets],
        [losses for part in parts for losses in part.losses],
    )


def _metrics(task: Task, data: _Outputs) -> dict[str, float]:
    """Return all metrics of the task, the leading one first."""
    return {name: _metric(name, metric, data) for name, metric in task.all_metrics.items()}


def _metric(name: str, metric: Metric, data: _Outputs) -> float:
    with user_code(f"metric {name}"):
        return metric.compute(data.outputs, data.targets)


def _client_metrics(task: Task, parts: Sequence[_Outputs]) -> tuple[float, ...] | None:
    """Return the leading metric of each client's own test data; None if they have none."""
    if not isinstance(task.test, JoinedSamples):
        return None
    for name, metric in task.all_metrics.items():
        return tuple(_metric(name, metric, part) for part in parts)
    return tuple(part.mean_loss for part in parts)


def _by_class(task: Task, data: _Outputs) -> dict[int, float]:
    """Return the accuracy of each class; empty without labels or without such a metric."""
    correct = next((m.per_sample for m in task.all_metrics.values() if m.per_sample), None)
    if correct is None:
        return {}
    targets = torch.cat(data.targets)
    if targets.dim() != 1 or targets.is_floating_point():
        return {}
    pairs = zip(data.outputs, data.targets, strict=True)
    is_correct = torch.cat([correct(outputs, wanted) for outputs, wanted in pairs])
    labels = torch.unique(targets).tolist()
    return {label: float(is_correct[targets == label].double().mean()) for label in labels}
