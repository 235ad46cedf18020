"""What a person sees of a comparison."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dynamite_fl._cli.views.compare import CompareView, show_comparison
from dynamite_fl.compare.comparison import Comparison, ComparisonRequest
from dynamite_fl.compare.hindsight import look_back
from dynamite_fl.compare.summary import RunResult, choose_target, summarize
from dynamite_fl.job.training import load_training_job
from tests.compare.results import RESULTS, errors_of, result
from tests.regressions import RMSE

FIXED = [result("fixed-2x9", seed, 0.9) for seed in (0, 1)]


def comparison(results: list[RunResult], fixed: list[RunResult]) -> Comparison:
    request = ComparisonRequest(
        job=load_training_job(),
        controllers=None,
        buffers=None,
        seeds=2,
        target=None,
        tune=(),
        hindsight=True,
        folder=Path("runs/a"),
        data_dir=None,
        jobs=1,
    )
    target = choose_target(results, None)
    contenders = summarize(results, target.value)
    hindsight = look_back(fixed, contenders, target.value)
    return Comparison(request, contenders, target, (), hindsight, {}, {})


@pytest.mark.parametrize("width", [40, 100])
def test_tables_fit_the_terminal(width: int) -> None:
    text = shown(comparison(RESULTS, FIXED), width)
    assert all(len(line) <= width for line in text.splitlines())
    for words in ("dynamite *", "80.0% ± 14.1", "to 70.0%", "2 of 2", "fixed-2x9", "20.0"):
        assert words in text
    assert "nan" not in text
    assert "* the best accuracy; ± one" in text


@pytest.mark.parametrize("width", [40, 100])
def test_where_lower_is_better_it_is_said(width: int) -> None:
    """Nothing is called accuracy, and no error is in per cent."""
    results, fixed = errors_of(RESULTS, RMSE), errors_of(FIXED, RMSE)
    text = shown(comparison(results, fixed), width)
    assert all(len(line) <= width for line in text.splitlines())
    for words in ("RMSE", "dynamite *", "0.2 ± 0.14", "to 0.3", "* the best RMSE; lower is better"):
        assert words in text
    assert "Its RMSE is 0.2 ± 0.14 better than that of fedavg." in " ".join(text.split())
    assert "accura" not in text


def test_a_narrow_terminal_counts_no_seeds_if_all_reach_the_target() -> None:
    names = ("dynamite-feedback", "fedavg")
    both = comparison([result(name, seed, 0.9) for name in names for seed in (0, 1)], FIXED)
    narrow, wide = (shown(both, width).partition("to 90.0%")[2] for width in (40, 100))
    assert "2 of 2" not in narrow
    assert "dynamite-feedback " in narrow
    assert "2 of 2" in wide


def shown(comparison: Comparison, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show_comparison(console, comparison)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_worst_client_has_a_column() -> None:
    """The means over seeds are 3 and 2."""
    results = []
    for name, errors in (("ours", (3.0, 1.0)), ("fedavg", (5.0, 3.0))):
        for seed, error in enumerate(errors):
            given = result(name, seed, error / 2, metric=RMSE)
            records = tuple(replace(r, client_metrics=(0.1, error)) for r in given.history)
            results.append(replace(given, history=replace(given.history, records=records)))
    text = shown(comparison(results, []), 100)
    assert "worst client" in text
    assert "2 ± 1.4" in text
    assert "4 ± 1.4" in text
    assert "worst class" not in text


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_shows_the_metric_only_if_it_is_known(terminal: bool) -> None:
    console = Console(file=io.StringIO(), width=40, force_terminal=terminal, highlight=False)
    with CompareView(console) as view:
        view.more(2, finished=0)
        view.started("fedavg-0")
        view.moved("fedavg-0", 0.5, None)
        view.finished("fedavg-0", None)
        view.started("fedavg-1")
        view.moved("fedavg-1", 0.5, "accuracy 25.0%")
        view.finished("fedavg-1", "accuracy 25.0%")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "nan" not in text
    if not terminal:
        assert "1 of 2: fedavg-0, took 0 s" in text
        assert "2 of 2: fedavg-1, accuracy 25.0%, took 0 s" in text


@pytest.mark.parametrize("width", [40, 80])
def test_the_progress_of_runs_cuts_neither_names_nor_metrics(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, highlight=False)
    with CompareView(console) as view:
        view.more(2, finished=0)
        view.started("dynamite-feedback-0")
        view.moved("dynamite-feedback-0", 0.5, "accuracy 81.2%")
        assert view._progress is not None
        console.print(view._progress)
        text = console.file.getvalue()  # type: ignore[attr-defined]
    for words in ("dynamite-feedback-0", "accuracy 81.2%", "0 of 2 done", "all runs"):
        assert words in text
    assert "…" not in text
