"""What a person sees of a training, on terminals and without one."""

import io
import math

import pytest
from rich.console import Console

from dynamite_fl._cli.views.run import RunView, show_summary
from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.records import Limits
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord
from tests.regressions import RMSE
from tests.training.records import record

LIMITS = Limits(deadline=1000, budget=2000, cost_per_sample=0.01, cost_per_round=1, rounds=100)


def view_of(
    *records: RoundRecord,
    width: int = 80,
    terminal: bool = False,
    metric: LeadingMetric = ACCURACY,
) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, highlight=False)
    with RunView(console, "fedavg on 3 devices, runs/a", LIMITS, metric) as view:
        for each in records:
            view._last_line = -math.inf  # every round is printed
            view.show(each)
            if terminal:
                console.print(view._progress(each))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("terminal", [False, True])
def test_accuracy_is_left_out_until_there_is_one(terminal: bool) -> None:
    before = view_of(record(1), terminal=terminal)
    assert "nan" not in before
    assert "accuracy" not in before
    after = view_of(record(1), record(2, accuracy=0.5), record(3), terminal=terminal)
    assert "nan" not in after
    assert "50.0%" in after


def test_a_line_says_what_was_decided_and_spent() -> None:
    lines = view_of(record(2, accuracy=0.5, local_steps=3)).splitlines()[1:]
    text = " ".join(line.strip() for line in lines)
    assert text.startswith("round 2: accuracy 50.0%, 3 local steps, mean batch 5.0, 20.0 s and")
    assert "cost 4.0 spent, done in about 0 s" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_the_leading_metric_is_shown_by_its_name(terminal: bool) -> None:
    judged = record(1, metrics={"rmse": 1.23456, "accuracy": 0.5})
    text = view_of(judged, record(2), terminal=terminal, metric=RMSE)
    assert "RMSE" in text
    assert "1.235" in text
    assert "accuracy" not in text
    worse = view_of(judged, record(2, metrics={"rmse": None}), terminal=terminal, metric=RMSE)
    assert worse.rindex("not a number") > worse.rindex("1.235")


def summary_of(history: History, width: int, devices: tuple[str, ...] = ()) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show_summary(console, "fedavg, runs/a", history, LIMITS, "deadline", devices)
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


@pytest.mark.parametrize("terminal", [False, True])
def test_the_learning_rate_is_shown_where_it_changes(terminal: bool) -> None:
    changing = view_of(record(1, learning_rate=0.0123456), terminal=terminal)
    assert "learning rate" in changing
    assert "0.0123" in changing
    assert "0.01234" not in changing
    assert "learning rate" not in view_of(record(1), terminal=terminal)
