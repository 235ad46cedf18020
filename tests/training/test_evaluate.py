"""The accuracy and loss of a model, worked by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.stream.stream import Stream
from dynamite_fl.training.evaluate import arrived_sample, evaluate
from tests.client.tasks import line_task
from tests.trainings import STREAM, digits

# Two samples: x = (1, 0) with y = 2, and x = (0, 2) with y = 2.
TASK = line_task([[1.0, 0.0], [0.0, 2.0]], [2.0, 2.0], penalty=9.0)


def test_accuracy_and_loss_by_hand() -> None:
    """At (2, 0) the first sample is right and the second is wrong by 2; no penalty counts."""
    found = evaluate(FlatModel(TASK, seed=0), torch.tensor([2.0, 0.0]))
    assert found.accuracy == 0.5
    assert found.loss == 1.0  # (0 + 4/2)/2
    assert found.class_accuracy == {}  # targets are not labels
    assert found.stream_loss is None


def test_the_loss_of_a_stream_is_that_of_the_rows() -> None:
    model, weights = FlatModel(TASK, seed=0), torch.tensor([2.0, 0.0])
    assert evaluate(model, weights, np.array([1, 1, 0])).stream_loss == pytest.approx(4 / 3)
    assert evaluate(model, weights, np.empty(0, dtype=np.int64)).stream_loss is None


def test_batches_make_no_difference() -> None:
    task = digits()
    model = FlatModel(task, seed=1)
    found = evaluate(model, model.first_weights)
    outputs = model.outputs(model.first_weights, task.test_inputs)
    correct = task.correct(outputs, task.test_targets)
    assert found.accuracy == pytest.approx(float(correct.double().mean()))
    assert found.loss == pytest.approx(float(task.loss(outputs, task.test_targets).mean()))
    for label, accuracy in found.class_accuracy.items():
        of_class = correct[task.test_targets == label]
        assert accuracy == pytest.approx(float(of_class.double().mean()))
    assert set(found.class_accuracy) == set(range(10))


def test_rows_are_drawn_from_what_has_arrived_alone() -> None:
    labels = digits().train_targets.numpy()
    parts = np.array_split(np.arange(labels.size), 3)
    streams = Stream.from_table(STREAM).build(parts.__getitem__, labels, rounds=8, seed=0)
    rows = arrived_sample(streams, clients=3, seed=0, round_index=4)
    seen = streams.seen(np.arange(3), 4)
    arrived = {int(row) for part in range(3) for row in streams.history(part)[: int(seen[part])]}
    assert rows.size == 1000
    assert set(rows.tolist()) <= arrived
    again = arrived_sample(streams, clients=3, seed=0, round_index=4)
    np.testing.assert_array_equal(rows, again)


def test_before_anything_arrives_there_are_no_rows() -> None:
    labels = digits().train_targets.numpy()
    table = {**STREAM, "initial": 0, "every": 5}
    streams = Stream.from_table(table).build(
        lambda _: np.arange(labels.size), labels, rounds=8, seed=0
    )
    assert streams.seen(np.arange(1), 1).sum() == 0
    assert arrived_sample(streams, clients=1, seed=0, round_index=1).size == 0


def test_every_test_sample_counts_once() -> None:
    task = replace(TASK, test_inputs=torch.zeros(601, 2), test_targets=torch.arange(601.0))
    found = evaluate(FlatModel(task, seed=0), torch.zeros(2))
    assert found.accuracy == pytest.approx(1 / 601)
