"""The summary of a training."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from dynamite_fl._cli.views.run import show_summary
from dynamite_fl.records import Limits
from dynamite_fl.training.history import History
from tests.regressions import RMSE
from tests.training.records import record

LIMITS = Limits(deadline=1000, budget=2000, cost_per_sample=0.01, cost_per_round=1, rounds=100)


def summary_of(
    history: History, width: int, devices: tuple[str, ...] = (), limits: Limits = LIMITS
) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show_summary(console, "fedavg, runs/a", history, limits, "deadline", devices)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("width", [40, 80])
def test_a_summary_fits_the_terminal(width: int) -> None:
    history = History(
        (
            record(1, accuracy=0.75, absent=(1, 2), refused=1),
            record(2, accuracy=0.5, class_accuracy={"cat": 0.25}, stream_loss=0.5),
        )
    )
    text = summary_of(history, width)
    assert all(len(line) <= width for line in text.splitlines())
    for words in ("50.0% on the test data", "cat, 25.0%", "2 times a device", "2, ended by"):
        assert words in text
    assert ("─" in text) == (width == 80)
    assert "2%" in text  # of the deadline


@pytest.mark.parametrize("width", [40, 80])
def test_a_summary_of_a_regression_shows_all_metrics_and_the_worst_client(width: int) -> None:
    history = History(
        (
            record(1, metrics={"rmse": 1.5, "r2": 0.5}),
            record(2, metrics={"rmse": 2.5, "r2": 0.25}, client_metrics=(2.0, 5.0, None)),
        ),
        RMSE,
    )
    text = summary_of(history, width)
    assert all(len(line) <= width for line in text.splitlines())
    words = " ".join(text.split())
    for part in (
        "RMSE 2.5 on the test data, 1.5 at best",
        "R2 0.25",
        "worst client client 1, 5; 3.5 on average",
    ):
        assert part in words
    assert "accuracy" not in text
    assert "[x], 5; 3.5" in " ".join(summary_of(history, width, ("b", "[x]", "c")).split())


def test_a_summary_of_a_model_that_diverged() -> None:
    history = History((record(1, metrics={"rmse": 1.5}), record(2, metrics={"rmse": None})), RMSE)
    assert "not a number on the test data, 1.5 at best" in summary_of(history, 80)
    never = History((record(1, metrics={"rmse": None}),), RMSE)
    assert "at best" not in summary_of(never, 80)


def test_a_summary_without_an_evaluation() -> None:
    text = summary_of(History((record(1),)), 80)
    assert "not evaluated yet" in text
    assert "nan" not in text
    assert "no round was played yet" in summary_of(History(), 80)


@pytest.mark.parametrize("width", [40, 80])
def test_a_summary_shows_epsilon_and_what_is_left_of_it(width: int) -> None:
    history = History((record(1, accuracy=0.5, epsilon=1.5),))
    limits = replace(LIMITS, epsilon=6.0, delta=0.001)
    text = " ".join(summary_of(history, width, limits=limits).split())
    for words in ("1.50 of 6.00", "25%", "delta 0.001", "4.50 of epsilon"):
        assert words in text
    assert "epsilon 1.50, no limit" in " ".join(summary_of(history, width).split())
    assert "epsilon" not in summary_of(History((record(1, accuracy=0.5),)), width, limits=limits)
