"""What a person sees of a training, on terminals and without one."""

import io
import math

import pytest
from rich.console import Console

from dynamite_fl._cli.views.run import RunView, show_summary
from dynamite_fl.records import Limits
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord
from tests.training.records import record

LIMITS = Limits(deadline=1000, budget=2000, cost_per_sample=0.01, cost_per_round=1, rounds=100)


def view_of(*records: RoundRecord, width: int = 80, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, highlight=False)
    with RunView(console, "fedavg on 3 devices, runs/a", LIMITS) as view:
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


def summary_of(history: History, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show_summary(console, "fedavg, runs/a", history, LIMITS, "deadline")
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


def test_a_summary_without_an_evaluation() -> None:
    text = summary_of(History((record(1),)), 80)
    assert "not evaluated yet" in text
    assert "nan" not in text
    assert "no round was played yet" in summary_of(History(), 80)
