"""What a person sees of a comparison."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from dynamite_fl._cli.views.compare import CompareView, show_comparison
from dynamite_fl.compare.comparison import Comparison, ComparisonRequest
from dynamite_fl.compare.hindsight import look_back
from dynamite_fl.compare.summary import choose_target, summarize
from dynamite_fl.job.training import load_training_job
from tests.compare.results import RESULTS, result


def comparison() -> Comparison:
    request = ComparisonRequest(
        job=load_training_job(),
        controllers=None,
        buffers=None,
        seeds=2,
        target=None,
        hindsight=True,
        folder=Path("runs/a"),
        data_dir=None,
        jobs=1,
    )
    target = choose_target(RESULTS, None)
    contenders = summarize(RESULTS, target.accuracy)
    fixed = [result("fixed-2x9", seed, 0.9) for seed in (0, 1)]
    hindsight = look_back(fixed, contenders, target.accuracy)
    return Comparison(request, contenders, target, hindsight, {})


@pytest.mark.parametrize("width", [40, 100])
def test_tables_fit_the_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show_comparison(console, comparison())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines())
    for words in ("dynamite *", "80.0% ± 14.1", "to 70.0%", "2 of 2", "fixed-2x9", "20.0"):
        assert words in text
    assert "nan" not in text


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_shows_accuracy_only_if_it_is_known(terminal: bool) -> None:
    console = Console(file=io.StringIO(), width=40, force_terminal=terminal, highlight=False)
    with CompareView(console) as view:
        view.more(2, finished=0)
        view.started("fedavg-0")
        view.moved("fedavg-0", 0.5, None)
        view.finished("fedavg-0", None)
        view.started("fedavg-1")
        view.moved("fedavg-1", 0.5, 0.25)
        view.finished("fedavg-1", 0.25)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "nan" not in text
    if not terminal:
        assert "1 of 2: fedavg-0, took 0 s" in text
        assert "2 of 2: fedavg-1, accuracy 25.0%, took 0 s" in text
