"""``dynamite experiment``."""

import json
import shutil
from pathlib import Path
from typing import get_args

import pytest

from dynamite_fl._cli.experiment import Scale, experiment_app
from dynamite_fl._cli.views.compare import CompareView
from dynamite_fl.experiments import NAMES, title_of
from dynamite_fl.experiments.experiment import SCALES
from dynamite_fl.experiments.run_record import record_file
from dynamite_fl.experiments.summary import figure_svg, summarize, to_json
from tests._cli.commands import invoke
from tests.compare.threads import threads_for_processes
from tests.experiments.smoke import run_here, smoke

__all__ = ["threads_for_processes"]  # a fixture


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """Return a folder with the runs of one experiment."""
    shutil.copytree(finished / "smoke/optimal-tau", tmp_path / "runs/smoke/optimal-tau")
    return tmp_path / "runs"


def experiment(*words: str | Path) -> tuple[int, str, str]:
    shown = invoke("experiment", *words)
    return shown.exit_code, shown.stdout, shown.stderr


def test_list() -> None:
    code, text, _ = experiment("list")
    assert code == 0
    assert all(name in text for name in NAMES)
    code, text, _ = experiment("list", "--json")
    listed = json.loads(text)
    assert [each["name"] for each in listed] == list(NAMES)
    assert listed[0] == {
        "name": "optimal-tau",
        "title": "Optimal local steps and batch size (squared SVM, MNIST)",
        "shows": "fig:case1",
        "runs": {"smoke": 6, "laptop": 9, "reduced": 0, "paper": 9},
    }


def test_help_says_what_each_shows() -> None:
    said = {each.name: each.short_help for each in experiment_app.registered_commands}
    assert {name: said[name] for name in NAMES} == {name: title_of(name) for name in NAMES}


def test_scales_are_those_that_experiments_have() -> None:
    literal, _ = get_args(Scale)
    assert get_args(literal) == SCALES


def test_what_cannot_be_used(tmp_path: Path) -> None:
    code, _, error = experiment("optimal-tau", "--scale", "big", "--runs", tmp_path)
    assert code == 2
    assert all(word in error for word in ("big", *SCALES))
    code, _, error = experiment("optimal-tauu")
    assert code == 2
    assert "optimal-tau" in error


@pytest.mark.usefixtures("threads_for_processes")
def test_after_an_interruption_it_continues_to_the_same_result(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the runs are finished, and the next is interrupted in its first rounds.

    The tests of ``dynamite compare`` have an interruption of real processes.
    """

    def press_ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    runs = smoke("optimal-tau", tmp_path)
    run_here(runs, at_most=3)
    words = ("optimal-tau", "--scale", "smoke", "--runs", tmp_path, "--jobs", "1")
    with monkeypatch.context() as patch:
        patch.setattr(CompareView, "moved", press_ctrl_c)
        code, output, _ = experiment(*words)
    assert code == 130, output
    assert "To continue, repeat the command." in output
    assert not (runs.folder / "verdict.json").exists()

    code, continued, _ = experiment(*words, "--json")
    assert code == 0
    whole = summarize(smoke("optimal-tau", finished))
    assert json.loads(continued)["claims"] == to_json(whole)["claims"]
    assert (runs.folder / "figure.svg").read_text() == figure_svg(whole)


def test_what_a_person_sees(copy: Path) -> None:
    code, text, _ = experiment("optimal-tau", "--scale", "smoke", "--runs", copy)
    assert code == 0
    assert "6 of 6 runs were finished before" in text
    assert "Optimal local steps and batch size" in text
    assert "Below 50 rounds, 10 steps on 6 samples have the highest accuracy" in text
    assert "figure, data and verdict:" in text


def test_the_page_of_results_names_what_was_not_run(copy: Path, tmp_path: Path) -> None:
    words = ("--scale", "smoke", "--runs", copy, "--out", tmp_path)
    code, text, _ = experiment("results", *words)
    assert code == 0
    assert "results.md shows 1 of 12 experiments at the scale smoke.\nRenewed: optimal-tau" in text
    assert "\nNot run: batch-sizes," in text
    assert (tmp_path / "results.md").is_file()
    code, _, error = experiment("results", "--runs", tmp_path / "none")
    assert code == 2
    assert "has no finished run" in error


def test_a_run_that_fails_does_not_stop_the_rest(copy: Path) -> None:
    broken = smoke("optimal-tau", copy).all()[0].path
    (broken / "history.jsonl").write_text("")
    record_file(broken).unlink(missing_ok=True)
    code, text, error = experiment("optimal-tau", "--scale", "smoke", "--runs", copy, "--json")
    assert code == 1
    assert f"{broken.name} failed: {broken / 'history.jsonl'} is damaged" in error
    summary = json.loads(text)
    assert (summary["finished_runs"], summary["runs"]) == (5, 6)
