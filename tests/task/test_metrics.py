"""Metrics, against scikit-learn's and closed forms; by name, as objects and as functions."""

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics  # type: ignore[import-untyped]
from torch import Tensor

from dynamite_fl._leading_metric import ACCURACY
from dynamite_fl.errors import InvalidInput, MissingExtra
from dynamite_fl.task import metrics
from dynamite_fl.task.metrics import (
    NAMED,
    RESERVED,
    Metric,
    accuracy_of,
    as_metric,
    as_metrics,
)
from dynamite_fl.tracking.tracker import round_metrics
from dynamite_fl.training.round_record import FIELDS
from tests.training.records import record

RANDOM = torch.Generator().manual_seed(0)
LOGITS = torch.randn(600, 3, generator=RANDOM)  # of three classes
LABELS = torch.randint(3, (600,), generator=RANDOM)
SCORES = torch.randn(600, generator=RANDOM)  # of two classes, as logits
IS_TRUE = (SCORES + torch.randn(600, generator=RANDOM) > 0.5).long()
NUMBERS = 3 * torch.randn(600, generator=RANDOM)

needs_torchmetrics = pytest.mark.skipif(
    importlib.util.find_spec("torchmetrics") is None, reason="needs the extra metrics"
)


def value(metric: Any, outputs: Any, targets: Any) -> float:
    return as_metric("tried", metric).compute([outputs], [targets])


def test_accuracies_are_those_of_scikit_learn() -> None:
    expected = sklearn_metrics.accuracy_score(LABELS, LOGITS.argmax(dim=1))
    assert value("accuracy", LOGITS, LABELS) == expected
    expected = sklearn_metrics.accuracy_score(IS_TRUE, torch.sigmoid(SCORES) > 0.5)
    assert value("binary_accuracy", SCORES, IS_TRUE) == expected
    assert value("binary_accuracy", SCORES, IS_TRUE.float()) == expected


def test_errors_are_those_of_scikit_learn() -> None:
    noisy = NUMBERS + SCORES
    assert value("rmse", noisy, NUMBERS) == pytest.approx(
        sklearn_metrics.root_mean_squared_error(NUMBERS, noisy)
    )
    assert value("mae", noisy, NUMBERS) == pytest.approx(
        sklearn_metrics.mean_absolute_error(NUMBERS, noisy)
    )


def test_perplexity_is_that_of_scikit_learn() -> None:
    probabilities = torch.softmax(LOGITS.double(), dim=1).numpy()
    log_loss = sklearn_metrics.log_loss(LABELS.numpy(), probabilities, labels=[0, 1, 2])
    assert value("perplexity", LOGITS, LABELS) == pytest.approx(math.exp(log_loss))


def test_perplexity_of_equal_probabilities_is_their_number() -> None:
    """Tokens of texts: two texts of three tokens out of seven; padding does not count."""
    texts = torch.tensor([[1, 2, -100], [3, -100, -100]])
    assert value("perplexity", torch.zeros(2, 3, 7), texts) == pytest.approx(7)
    certain = torch.zeros(2, 3, 7)
    certain.scatter_(2, texts.clamp(min=0)[..., None], 1e3)
    assert value("perplexity", certain, texts) == pytest.approx(1)


@given(shift=st.floats(-100, 100), scale=st.floats(0.1, 10))
def test_errors_by_closed_forms(shift: float, scale: float) -> None:
    """A constant error is its own mean, and errors scale with the numbers."""
    numbers = NUMBERS.double()
    assert value("rmse", numbers + shift, numbers) == pytest.approx(abs(shift), abs=1e-9)
    assert value("mae", numbers + shift, numbers) == pytest.approx(abs(shift), abs=1e-9)
    noisy = numbers + SCORES
    expected = scale * value("rmse", noisy, numbers)
    assert value("rmse", scale * noisy, scale * numbers) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["rmse", "mae", "binary_accuracy"])
def test_a_last_dimension_of_one_is_no_table_of_pairs(name: str) -> None:
    """A linear layer with one output gives (n, 1), while targets are often (n,)."""
    targets = IS_TRUE.float()
    flat = value(name, SCORES, targets)
    assert value(name, SCORES[:, None], targets) == flat
    assert value(name, SCORES, targets[:, None]) == flat
    with pytest.raises(InvalidInput, match=r"shape \(600, 3\) do not fit .* shape \(600,\)"):
        value(name, LOGITS, targets)


def test_accuracy_refuses_targets_that_are_no_classes_of_the_outputs() -> None:
    for targets in (LABELS[:, None], torch.nn.functional.one_hot(LABELS)):
        with pytest.raises(InvalidInput, match="accuracy needs outputs"):
            value("accuracy", LOGITS, targets)


@pytest.mark.parametrize("name", NAMED)
@given(cuts=st.lists(st.integers(1, 599), max_size=5, unique=True).map(sorted))
def test_joined_batches_equal_one_batch(name: str, cuts: list[int]) -> None:
    outputs, targets = (LOGITS, LABELS) if name in ("accuracy", "perplexity") else (SCORES, IS_TRUE)
    whole = NAMED[name].compute([outputs], [targets])
    parts = [list(torch.tensor_split(tensor, cuts)) for tensor in (outputs, targets)]
    assert NAMED[name].compute(*parts) == whole


def test_nested_outputs_are_joined() -> None:
    """Models may return a dict or a tuple; a metric then sees one of the whole."""

    def seen(outputs: Any, targets: Any) -> float:
        assert outputs["pair"][1].shape == (600,)
        assert isinstance(targets, list)
        return float(outputs["logits"].shape[0] + len(targets))

    batches = [
        {"logits": logits, "pair": (logits, scores)}
        for logits, scores in zip(torch.split(LOGITS, 250), torch.split(SCORES, 250), strict=True)
    ]
    texts = [["a", "b"], ["c"], ["d"]]
    assert Metric(seen).compute(batches, texts) == 604


def test_outputs_of_different_shapes_need_torchmetrics() -> None:
    batches = [torch.zeros(2, 5), torch.zeros(2, 6)]
    with pytest.raises(InvalidInput, match="different shapes and cannot be joined: use a torchm"):
        Metric(lambda outputs, _: outputs.mean()).compute(batches, batches)


@pytest.mark.parametrize(
    "result", [2.0, 2, torch.tensor(2.0), torch.tensor([[2]]), np.float32(2), np.array([2.0])]
)
def test_one_number_of_any_kind(result: Any) -> None:
    assert value(lambda *_: result, SCORES, IS_TRUE) == 2.0


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (torch.zeros(3), r"returned the shape \(3,\)"),
        (np.zeros((2, 2)), r"returned the shape \(2, 2\)"),
        (torch.zeros(0), r"returned the shape \(0,\)"),
        ([0.5], "returned a list"),
        ({"f1": 0.5}, "returned a dict"),
        (None, "returned a NoneType"),
        ("0.5", "returned a str"),
    ],
)
def test_what_is_not_one_number_is_refused(result: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=f"a metric {words}, but it must return one number"):
        value(lambda *_: result, SCORES, IS_TRUE)


def test_directions() -> None:
    higher = {name: metric.higher_is_better for name, metric in NAMED.items()}
    assert higher == {
        "accuracy": True,
        "binary_accuracy": True,
        "rmse": False,
        "mae": False,
        "perplexity": False,
    }
    assert as_metric("closeness", lambda *_: 0).higher_is_better
    assert not as_metric("cost", Metric(lambda *_: 0, higher_is_better=False)).higher_is_better


@pytest.mark.parametrize("name", ["rmse", "test_loss", "mean-error", "MAE"])
def test_a_function_that_is_an_error_by_its_name_needs_a_direction(name: str) -> None:
    """Otherwise a comparison would silently prefer the worst model."""
    with pytest.raises(InvalidInput, match=r"Metric\(function, higher_is_better=False\)"):
        as_metrics({name: lambda *_: 0.5})
    as_metrics({name: Metric(lambda *_: 0.5, higher_is_better=False)})


def test_the_order_is_kept() -> None:
    assert list(as_metrics({"mae": "mae", "closeness": lambda *_: 0, "rmse": metrics.rmse})) == [
        "mae",
        "closeness",
        "rmse",
    ]
    assert list(as_metrics(["rmse", "mae"])) == ["rmse", "mae"]
    assert as_metrics(None) == as_metrics([]) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("accuracy", "metrics must be a dict"),
        (metrics.rmse.function, "metrics must be a dict"),
        ({"loss": metrics.rmse}, "cannot be named 'loss'"),
        ({"cost": metrics.rmse}, "cannot be named 'cost', because histories have something else"),
        ({"a metric": metrics.rmse}, "cannot be named 'a metric': use letters"),
        ({"": metrics.rmse}, "cannot be named ''"),
        ({"rmse": Metric}, "metric 'rmse' is the class Metric: give an object of it"),
        ({"rmse": 3}, "metric 'rmse' is a int: give a function, a name or a Metric"),
    ],
)
def test_what_is_no_metric_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        as_metrics(given)


def test_names_of_fields_are_reserved() -> None:
    """Columns of a history and figures in trackers have the names of metrics and of fields."""
    full = record(1, metrics={}, client_metrics=(0.5,), loss=0.5, stream_loss=0.5)
    assert set(FIELDS) | set(round_metrics(full, ACCURACY)) <= RESERVED


def test_an_accuracy_also_says_which_outputs_are_correct() -> None:
    even = accuracy_of(lambda outputs, targets: outputs % 2 == targets % 2)
    assert even.compute([torch.arange(4)], [torch.tensor([0, 0, 0, 0])]) == 0.5
    assert even.per_sample is not None
    assert even.per_sample(torch.tensor([1, 2]), torch.tensor([1, 1])).tolist() == [True, False]
    assert metrics.rmse.per_sample is None


@needs_torchmetrics
def test_an_auc_of_one_class_is_undefined() -> None:
    """Torchmetrics itself returns 0, which would make such a client the worst of all."""
    auc = as_metric("auc", "BinaryAUROC")
    for target in (0, 1):
        assert math.isnan(auc.compute([SCORES], [torch.full_like(IS_TRUE, target)]))
    assert 0 < auc.compute([SCORES], [IS_TRUE]) < 1


@needs_torchmetrics
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BinaryF1Score", lambda: sklearn_metrics.f1_score(IS_TRUE, SCORES > 0)),
        ("BinaryAUROC", lambda: sklearn_metrics.roc_auc_score(IS_TRUE, SCORES)),
        ("BinaryAccuracy", lambda: sklearn_metrics.accuracy_score(IS_TRUE, SCORES > 0)),
    ],
)
def test_torchmetrics_by_name_and_as_an_object(name: str, expected: Callable[[], float]) -> None:
    from torchmetrics import classification

    by_name, by_object = as_metric(name, name), as_metric("own", getattr(classification, name)())
    for metric in (by_name, by_object):
        assert metric.higher_is_better
        for _ in range(2):  # nothing is left of the evaluation before
            assert metric.compute([SCORES], [IS_TRUE]) == pytest.approx(expected())
        parts = [list(torch.split(tensor, 250)) for tensor in (SCORES, IS_TRUE)]
        assert metric.compute(*parts) == pytest.approx(expected())


@needs_torchmetrics
def test_torchmetrics_of_several_classes() -> None:
    from torchmetrics.classification import MulticlassF1Score

    macro = as_metric("f1", MulticlassF1Score(num_classes=3, average="macro"))
    expected = sklearn_metrics.f1_score(LABELS, LOGITS.argmax(dim=1), average="macro")
    assert macro.compute([LOGITS], [LABELS]) == pytest.approx(expected)
    each = as_metric("f1", MulticlassF1Score(num_classes=3, average=None))
    with pytest.raises(InvalidInput, match=r"returned the shape \(3,\).*average='macro'"):
        each.compute([LOGITS], [LABELS])


@needs_torchmetrics
def test_a_batch_of_logits_is_not_taken_for_probabilities() -> None:
    """Torchmetrics decides by the batch; the second one here has only logits from 0 to 1."""
    logits, truth = torch.tensor([-2.0, 3.0, 0.2, 0.4]), torch.tensor([0, 1, 1, 1])
    metric = as_metric("f1", "BinaryF1Score")
    assert metric.compute([logits], [truth]) == 1
    assert metric.compute([logits[:2], logits[2:]], [truth[:2], truth[2:]]) == 1


@needs_torchmetrics
def test_torchmetrics_take_batches_of_different_shapes() -> None:
    lengths = [torch.zeros(2, 5, 7), torch.zeros(2, 6, 7)]
    targets = [torch.ones(2, 5, dtype=torch.long), torch.ones(2, 6, dtype=torch.long)]
    assert value("perplexity", lengths[0], targets[0]) == pytest.approx(7)
    metric = as_metric("perplexity", "Perplexity")
    assert not metric.higher_is_better
    assert metric.compute(lengths, targets) == pytest.approx(7)


@needs_torchmetrics
def test_directions_of_torchmetrics() -> None:
    from torchmetrics import ConfusionMatrix, MeanSquaredError, MetricCollection

    assert not as_metric("mse", "MeanSquaredError").higher_is_better
    assert not Metric(MeanSquaredError()).higher_is_better  # it is an error by any name
    assert Metric(MeanSquaredError(), higher_is_better=True).higher_is_better
    for undirected in (ConfusionMatrix(task="binary"), MetricCollection([MeanSquaredError()])):
        with pytest.raises(InvalidInput, match="does not say whether higher is better"):
            as_metric("own", undirected)


@needs_torchmetrics
def test_torchmetrics_that_need_arguments_and_names_that_do_not_exist() -> None:
    with pytest.raises(InvalidInput, match="metric F1Score needs arguments: give an object of it"):
        as_metric("f1", "F1Score")
    with pytest.raises(InvalidInput, match="did you mean 'BinaryF1Score'"):
        as_metric("f1", "BinaryF1Scor")
    with pytest.raises(InvalidInput, match="did you mean 'rmse'"):
        as_metric("rmse", "rmsee")


def test_without_torchmetrics_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"dynamite-fl\[metrics\]"):
        as_metric("f1", "BinaryF1Score")
    with pytest.raises(InvalidInput, match="did you mean 'rmse'"):
        as_metric("rmse", "rmsee")


def test_outputs_are_left_as_they_are() -> None:
    outputs, targets = SCORES.clone(), IS_TRUE.clone()
    for name in ("rmse", "mae", "binary_accuracy"):
        NAMED[name].compute([outputs], [targets])
    unchanged: list[tuple[Tensor, Tensor]] = [(outputs, SCORES), (targets, IS_TRUE)]
    assert all(torch.equal(left, right) for left, right in unchanged)
