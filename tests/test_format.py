"""Numbers as text."""

import math

import pytest

from dynamite_fl._format import (
    byte_size,
    count,
    is_share,
    metric_difference,
    metric_label,
    metric_spread,
    metric_title,
    metric_value,
    number,
    number_spread,
    percent_spread,
)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.0"), (99.94, "99.9"), (100, "100"), (1e6, "1,000,000")]
)
def test_decimals_are_shown_below_100(value: float, text: str) -> None:
    assert number(value) == text


def test_a_spread_has_the_decimals_of_its_mean() -> None:
    assert number_spread(1234.5, 7.89) == "1,234 ± 8"
    assert number_spread(12.34, 0.5, decimals=2) == "12.34 ± 0.50"
    assert percent_spread(1.0, 0.0) == "100.0% ± 0.0"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (5e9, "5 GB"), (2e15, "2e+03 TB")],
)
def test_sizes(size: float, text: str) -> None:
    assert byte_size(size) == text


def test_one_thing_is_singular_and_all_other_numbers_are_plural() -> None:
    assert (count(0, "run"), count(1, "run"), count(1000, "run")) == (
        "0 runs",
        "1 run",
        "1,000 runs",
    )


@pytest.mark.parametrize(
    "name",
    [
        "accuracy",
        "top5_accuracy",
        "BinaryAccuracy",
        "f1",
        "macro-f1",
        "BinaryF1Score",
        "auc",
        "MulticlassAUROC",
        "AveragePrecision",
        "recall",
        "BinaryJaccardIndex",
        "mean_iou",
        "dice",
    ],
)
def test_shares_are_in_per_cent(name: str) -> None:
    assert is_share(name)
    assert metric_value(name, 0.98765) == "98.8%"
    assert metric_spread(name, 0.98765, 0.0123) == "98.8% ± 1.2"
    assert metric_difference(name, 0.0123) == "1.2 points"


@pytest.mark.parametrize(
    "name",
    ["rmse", "MeanSquaredError", "loss", "perplexity", "r2", "inaccuracy", "f10", "faucet", "mcc"],
)
def test_other_metrics_have_four_significant_digits(name: str) -> None:
    assert not is_share(name)
    assert metric_value(name, 0.98765) == "0.9877"
    assert metric_spread(name, 12.3456, 0.0123) == "12.35 ± 0.012"
    assert metric_spread(name, 12.3456, None) == "12.35"
    assert metric_difference(name, 0.0123, 0.0456) == "0.0123 ± 0.046"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-1.5, "-1.5"),
        (1234.5, "1,234"),
        (123456.7, "123,457"),
        (1.2e-7, "1.2e-07"),
        (1e20, "1e+20"),
        (math.nan, "not a number"),
        (math.inf, "not a number"),
        (None, "not a number"),
    ],
)
def test_numbers_of_any_size(value: float | None, text: str) -> None:
    assert metric_value("rmse", value) == text


def test_names_of_metrics_for_people() -> None:
    assert metric_label("weighted_f1") == "weighted F1"
    assert [metric_title(name) for name in ("mae", "top5_accuracy", "loss", "x")] == [
        "MAE",
        "Top5 accuracy",
        "Loss",
        "X",
    ]
