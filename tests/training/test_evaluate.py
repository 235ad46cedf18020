"""The metrics and the loss of a model: worked by hand, and against plain torch code."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dynamite_fl as fl
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.errors import UserCodeError
from dynamite_fl.stream.stream import Stream
from dynamite_fl.task.task import Task
from dynamite_fl.training.engine import Evaluation
from dynamite_fl.training.evaluate import arrived_sample, evaluate
from tests.trainings import STREAM, digits

# Two samples: x = (1, 0) with y = 2, and x = (0, 2) with y = 2.
POINTS = (torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([2.0, 2.0]))


class Product(nn.Module):
    """A linear model without a bias, whose output is (b,)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


def half_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square() / 2


def product_task(**changed: Any) -> Task:
    given: dict[str, Any] = {
        "model": Product,
        "loss": half_square,
        "train_data": POINTS,
        "test_data": POINTS,
        "metrics": {
            "close": lambda outputs, targets: ((outputs - targets).abs() < 0.5).double().mean(),
            "rmse": fl.metrics.rmse,
        },
        "penalty": 9.0,
    }
    return Task(**{**given, **changed})


def at(weights: tuple[float, float], task: Task) -> Evaluation:
    return evaluate(FlatModel(task, seed=0), torch.tensor(weights))


def test_metrics_and_loss_by_hand() -> None:
    """At (2, 0) the first sample is right and the second is wrong by 2; no penalty counts."""
    found = at((2.0, 0.0), product_task())
    assert found.metrics == {"close": 0.5, "rmse": math.sqrt(2)}
    assert list(found.metrics) == ["close", "rmse"]
    assert found.loss == 1.0  # (0 + 4/2)/2
    assert found.class_accuracy == {}  # targets are not labels
    assert found.client_metrics is None
    assert found.stream_loss is None


def test_a_mean_loss_counts_every_sample_once() -> None:
    """There are 601 samples: two whole batches, and one that is shorter."""
    data = (torch.zeros(601, 2), torch.arange(601.0))
    by_sample = product_task(test_data=data, metrics=["mae"])
    by_batch = product_task(test_data=data, metrics=["mae"], loss=nn.MSELoss())
    assert at((0.0, 0.0), by_sample).metrics["mae"] == 300
    square = float(torch.arange(601.0).double().square().mean())
    assert at((0.0, 0.0), by_sample).loss == pytest.approx(square / 2)
    assert at((0.0, 0.0), by_batch).loss == pytest.approx(square)


def test_the_loss_of_a_stream_is_that_of_the_rows() -> None:
    model, weights = FlatModel(product_task(), seed=0), torch.tensor([2.0, 0.0])
    assert evaluate(model, weights, np.array([1, 1, 0])).stream_loss == pytest.approx(4 / 3)
    assert evaluate(model, weights, np.empty(0, dtype=np.int64)).stream_loss is None


def test_batches_make_no_difference() -> None:
    task = digits()
    model = FlatModel(task, seed=1)
    found = evaluate(model, model.first_weights)
    inputs, labels = task.test.batch(np.arange(len(task.test)))
    with torch.no_grad():
        outputs = task.new_model(seed=1)(inputs)
    correct = outputs.argmax(dim=1) == labels
    assert found.metrics["accuracy"] == float(correct.double().mean())
    assert found.loss == pytest.approx(float(nn.functional.cross_entropy(outputs, labels)))
    assert found.class_accuracy == {
        label: float(correct[labels == label].double().mean()) for label in range(10)
    }


# What every client has of its own


def test_the_leading_metric_of_each_client_by_hand() -> None:
    """The errors are 0 and 2 for the first client, 0 for the second and 4 for the third."""
    others = [(torch.tensor([[1.0, 5.0]]), torch.tensor([y])) for y in (2.0, 6.0)]
    task = product_task(test_data=[POINTS, *others], metrics=["rmse", "mae"])
    found = at((2.0, 0.0), task)
    assert found.client_metrics == (math.sqrt(2), 0.0, 4.0)
    assert found.metrics == {"rmse": math.sqrt(20 / 4), "mae": 6 / 4}
    assert found.loss == (4 + 16) / 2 / 4  # over samples, not over clients


def test_without_a_metric_each_client_has_its_loss() -> None:
    task = product_task(test_data=[POINTS, POINTS], metrics=[])
    assert at((2.0, 0.0), task).client_metrics == (1.0, 1.0)
    assert at((2.0, 0.0), task).metrics == {}
    assert (task.leading_metric.name, task.leading_metric.higher_is_better) == ("loss", False)


def test_a_list_of_one_client_is_a_list() -> None:
    assert at((2.0, 0.0), product_task(test_data=[POINTS])).client_metrics == (0.5,)


def test_clients_metrics_are_those_of_separate_tasks() -> None:
    whole = digits()
    rows = np.array_split(np.arange(len(whole.test)), [20, 300])
    parts = [whole.test.batch(part) for part in rows]
    model = nn.Linear(64, 10)

    def task_of(data: Any) -> Task:
        return Task(model=lambda: model, loss=nn.CrossEntropyLoss(), test_data=data)

    def flat(inputs: Tensor) -> Tensor:
        return inputs.flatten(1)

    parts = [(flat(inputs), labels) for inputs, labels in parts]
    separate = [fl.evaluate(task_of(part), model)["accuracy"] for part in parts]
    together = FlatModel(task_of(parts), seed=0)
    assert evaluate(together, together.first_weights).client_metrics == tuple(separate)


# Evaluation mode: what is reported is what a user gets from the model


class Noisy(nn.Module):
    """A model that behaves differently in training: by dropout and batch statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def regression() -> Task:
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(400, 3, generator=random)
    targets = inputs @ torch.tensor([[1.0], [-2.0], [0.5]])
    return Task(
        model=Noisy,
        loss=nn.MSELoss(),
        train_data=(inputs[:200], targets[:200]),
        test_data=(inputs[200:], targets[200:]),
        metrics=["rmse", "mae"],
    )


def test_a_trained_model_gives_what_was_reported_exactly() -> None:
    task = regression()
    result = fl.train(
        task,
        devices=fl.Devices(samples_per_second=[100, 400], latency=0.1),
        limits=fl.Limits(deadline=60, budget=60, cost_per_sample=0.002, cost_per_round=1, rounds=4),
        learning_rate=0.05,
    )
    assert list(result.metrics) == ["rmse", "mae", "loss"]
    assert fl.evaluate(task, result.model) == result.metrics
    inputs, targets = task.test.batch(np.arange(200))
    with torch.no_grad():
        errors = (result.model(inputs) - targets).double()
    assert float(errors.square().mean().sqrt()) == result.metrics["rmse"]
    assert float(errors.abs().mean()) == result.metrics["mae"]
    fresh = task.new_model(seed=5)
    fresh.load_state_dict(result.state_dict)
    assert fl.evaluate(task, fresh.train()) == result.metrics  # it is set to evaluation mode
    assert result.metrics["rmse"] ** 2 == pytest.approx(result.metrics["loss"])


def test_an_evaluation_changes_no_statistics_and_no_random_numbers() -> None:
    task = regression()
    model = FlatModel(task, seed=0)
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    torch.manual_seed(3)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    first = evaluate(model, model.first_weights)
    assert torch.equal(torch.rand(1), drawn)
    assert evaluate(model, model.first_weights) == first
    after = model.module.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


# Models with several outputs, and tasks without a loss


class TwoHeads(nn.Module):
    """A model that returns a class and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.classes, self.number = nn.Linear(4, 3), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.classes(x), self.number(x)[:, 0]


INPUTS = torch.randn(300, 4, generator=torch.Generator().manual_seed(2))
CLASSES, TOTALS = INPUTS[:, :3].argmax(dim=1), INPUTS.sum(dim=1)


def both_losses(outputs: Any, targets: Any) -> Tensor:
    cross_entropy = nn.functional.cross_entropy(outputs[0], targets[0])
    return cross_entropy + nn.functional.mse_loss(outputs[1], targets[1])


def test_several_outputs_and_targets() -> None:
    """The 300 samples are two batches, which metrics see as one."""
    task = Task(
        model=TwoHeads,
        loss=both_losses,
        test_data=(INPUTS, (CLASSES, TOTALS)),
        metrics={
            "accuracy": lambda o, t: (o[0].argmax(dim=1) == t[0]).double().mean(),
            "total_rmse": fl.metrics.Metric(
                lambda o, t: (o[1] - t[1]).double().square().mean().sqrt(), higher_is_better=False
            ),
        },
    )
    model = task.new_model(seed=0).eval()
    found = fl.evaluate(task, model)
    with torch.no_grad():
        logits, numbers = model(INPUTS)
    assert found["accuracy"] == float((logits.argmax(dim=1) == CLASSES).double().mean())
    expected = float((numbers - TOTALS).double().square().mean().sqrt())
    assert found["total_rmse"] == pytest.approx(expected)
    loss = float(both_losses((logits, numbers), (CLASSES, TOTALS)))
    assert found["loss"] == pytest.approx(loss)


def test_a_training_step_with_predictions_of_its_own() -> None:
    def step(model: nn.Module, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0])[0], batch[1])

    def predict(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        return model(batch[0])[0], batch[1]

    given: dict[str, Any] = {
        "model": TwoHeads,
        "training_step": step,
        "test_data": (INPUTS[:200], CLASSES[:200]),
    }
    task = Task(**given, predict=predict, metrics=["accuracy"])
    model = task.new_model(seed=0).eval()
    with torch.no_grad():
        logits, _ = model(INPUTS[:200])
    correct = logits.argmax(dim=1) == CLASSES[:200]
    loss = float(nn.functional.cross_entropy(logits, CLASSES[:200]))
    assert fl.evaluate(task, model) == {"accuracy": float(correct.double().mean()), "loss": loss}
    assert fl.evaluate(Task(**given), model) == {"loss": loss}


def test_a_metric_that_fails_is_named() -> None:
    def broken(outputs: Tensor, targets: Tensor) -> float:
        raise ZeroDivisionError(f"{outputs.shape} {targets.shape}")

    with pytest.raises(UserCodeError, match="metric mine failed: ZeroDivisionError"):
        at((0.0, 0.0), product_task(metrics={"mine": broken}))


# Samples of a stream


def test_rows_are_drawn_from_what_has_arrived_alone() -> None:
    labels = digits().train_labels()
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
    labels = digits().train_labels()
    table = {**STREAM, "initial": 0, "every": 5}
    streams = Stream.from_table(table).build(
        lambda _: np.arange(labels.size), labels, rounds=8, seed=0
    )
    assert streams.seen(np.arange(1), 1).sum() == 0
    assert arrived_sample(streams, clients=1, seed=0, round_index=1).size == 0


def test_numbers_of_double_precision_are_not_rounded() -> None:
    """Outputs of 1e9 and targets of 1e9 and 1e9 + 2 differ by the root of 2 in the mean."""

    def constant() -> nn.Module:
        layer = nn.Linear(1, 1).double()
        nn.init.zeros_(layer.weight)
        nn.init.constant_(layer.bias, 1e9)
        return layer

    targets = torch.tensor([[1e9], [1e9 + 2]], dtype=torch.float64)
    data = (torch.zeros(2, 1, dtype=torch.float64), targets)
    task = Task(
        model=constant, loss=nn.MSELoss(), train_data=data, test_data=data, metrics=["rmse"]
    )
    model = FlatModel(task, seed=0)
    evaluation = evaluate(model, model.first_weights)
    assert evaluation.loss == 2.0
    assert evaluation.metrics["rmse"] == pytest.approx(2**0.5)
