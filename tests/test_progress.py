"""What a person sees of a training while it runs, on terminals and without one."""

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from dynamite_fl import make_task, train
from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl._progress import RunView, limit_used, open_progress
from dynamite_fl.records import Limits
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord
from tests.regressions import RMSE
from tests.training.records import record

LIMITS = Limits(deadline=1000, budget=2000, cost_per_sample=0.01, cost_per_round=1, rounds=100)
TITLE = "fedavg on 3 devices, runs/a"


def new_view(width: int = 80, terminal: bool = False) -> RunView:
    return RunView(
        Console(file=io.StringIO(), width=width, force_terminal=terminal, highlight=False), "runs/a"
    )


def written(view: RunView) -> str:
    return view.console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def view_of(
    *records: RoundRecord,
    width: int = 80,
    terminal: bool = False,
    metric: LeadingMetric = ACCURACY,
    before: tuple[RoundRecord, ...] = (),
) -> str:
    with new_view(width, terminal) as view:
        view.begin(TITLE, LIMITS, History(before, metric))
        for each in records:
            view._last_line = -math.inf  # every round is printed
            view.show(each)
            if terminal:
                view.console.print(view._picture())
    return written(view)


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
    assert "cost 4.0 spent, done in about" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_the_leading_metric_is_shown_by_its_name(terminal: bool) -> None:
    judged = record(1, metrics={"rmse": 1.23456, "accuracy": 0.5})
    text = view_of(judged, record(2), terminal=terminal, metric=RMSE)
    assert "RMSE" in text
    assert "1.235" in text
    assert "accuracy" not in text
    worse = view_of(judged, record(2, metrics={"rmse": None}), terminal=terminal, metric=RMSE)
    assert worse.rindex("not a number") > worse.rindex("1.235")


@pytest.mark.parametrize(("share", "filled"), [(0.0, 0), (0.5, 10), (1.0, 20), (1.3, 20)])
def test_a_bar_shows_the_share_and_is_never_longer_than_full(share: float, filled: int) -> None:
    text = limit_used(200 * share, 200, width=100).plain
    assert text.count("━") == filled
    assert text.count("━") + text.count("─") == 20
    assert text.endswith(f"{share:4.0%}")


def test_no_limit_has_no_bar() -> None:
    assert limit_used(1234.5, math.inf, width=100).plain.strip() == "1,234.5, no limit"
    assert "━" not in limit_used(30, 120, width=40).plain


@pytest.mark.parametrize("terminal", [False, True])
def test_the_learning_rate_is_shown_where_it_changes(terminal: bool) -> None:
    changing = view_of(record(1, learning_rate=0.0123456), terminal=terminal)
    assert "learning rate" in changing
    assert "0.0123" in changing
    assert "0.01234" not in changing
    assert "learning rate" not in view_of(record(1), terminal=terminal)


def test_a_terminal_shows_something_before_the_first_round() -> None:
    with new_view(terminal=True) as view:
        assert "runs/a" in written(view)
        view.say("Loading PyTorch")
        view.console.print(view._picture())
        assert "Loading PyTorch" in written(view)
        view.begin(TITLE, LIMITS, History())
        view.console.print(view._picture())
        assert "Round 1 is under way" in written(view)


def test_without_a_terminal_only_waits_for_nodes_are_printed() -> None:
    with new_view() as view:
        view.say("Loading PyTorch")
        assert written(view) == ""
        for number in (1, 2):
            view.wait(f"Waiting for {number} nodes", urgent=True)
        assert written(view) == "Waiting for 1 nodes\nWaiting for 2 nodes\n"
        for _ in range(3):  # one line at times is enough for the replies of a round
            view.wait("Waiting for 2 nodes in round 1", urgent=False)
        assert written(view).count("in round 1") == 1


@pytest.mark.parametrize("terminal", [False, True])
def test_a_resume_shows_what_was_reached_before(terminal: bool) -> None:
    before = (record(1, accuracy=0.5), record(2))
    text = view_of(record(3), before=before, terminal=terminal)
    assert "50.0%" in text
    assert "nan" not in text
    never = view_of(record(3), before=(record(1), record(2)), terminal=terminal)
    assert "nan" not in never
    assert "accuracy" not in never


def test_the_time_left_counts_from_the_resume() -> None:
    view = new_view()
    view.begin(TITLE, LIMITS, History((record(49),)))
    assert view._seconds_left(record(49)) is None  # no round was played since then
    view._start -= 10  # ten seconds for the rounds 50 and 51 of 100
    assert view._seconds_left(record(51)) == pytest.approx(10 / 2 * 49, rel=0.01)


def test_a_narrow_terminal_cuts_no_label() -> None:
    text = view_of(record(2, accuracy=0.5, learning_rate=0.1), width=40, terminal=True)
    for label in ("round", "accuracy", "local steps", "mean batch", "learning rate", "seconds"):
        assert label in text
    assert "…" not in text


@pytest.mark.parametrize("wanted", [None, False, True])
def test_python_without_terminal_or_notebook_is_silent_unless_told(
    wanted: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    task = make_task("softmax", "synthetic")
    limits = replace(LIMITS, rounds=2)
    train(task, devices="testbed5", limits=limits, learning_rate=0.1, progress=wanted)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("dynamite-feedback on 5 devices" in shown.err) == (wanted is True)
    assert (shown.err == "") == (wanted is not True)


def test_python_on_a_terminal_shows_its_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes any file for a terminal
    with open_progress(None, TITLE) as view:
        assert view is not None
    with open_progress(False, TITLE) as view:
        assert view is None
    shown = capsys.readouterr()
    assert shown.out == ""
    assert TITLE in shown.err


@pytest.mark.parametrize("terminal", [False, True])
def test_epsilon_is_shown_where_there_is_privacy(terminal: bool) -> None:
    text = view_of(record(1, epsilon=1.234), terminal=terminal)
    assert "epsilon" in text
    assert "1.23" in text
    assert "epsilon" not in view_of(record(1), terminal=terminal)
