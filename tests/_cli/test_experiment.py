"""`dynamite experiment` as a user runs it: listing, interruption, what cannot be used."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from dynamite_fl._cli.experiment import Scale, experiment_app
from dynamite_fl._cli.main import app
from dynamite_fl.experiments import NAMES, title_of
from dynamite_fl.experiments.experiment import SCALES
from dynamite_fl.experiments.summary import figure_svg, summarize, to_json
from tests.experiments.smoke import run_here, smoke


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs of one experiment; only to be copied."""
    root = tmp_path_factory.mktemp("finished")
    run_here(smoke("optimal-tau", root))
    return root


def command(*words: str) -> list[str]:
    start = [sys.executable, "-c", "from dynamite_fl._cli.main import main; main()", "experiment"]
    return [*start, *words]


def invoke(*words: str) -> tuple[int, str, str]:
    shown = CliRunner().invoke(app, ["experiment", *words])
    return shown.exit_code, shown.stdout, shown.stderr


def test_list() -> None:
    code, text, _ = invoke("list")
    assert code == 0
    assert all(name in text for name in NAMES)
    code, text, _ = invoke("list", "--json")
    listed = json.loads(text)
    assert [each["name"] for each in listed] == list(NAMES)
    assert listed[0] == {
        "name": "optimal-tau",
        "title": "Optimal local steps and batch size (squared SVM, MNIST)",
        "shows": "fig:case1",
        "runs": {"smoke": 6, "laptop": 9, "paper": 9},
    }


def test_help_says_what_each_shows() -> None:
    said = {each.name: each.short_help for each in experiment_app.registered_commands}
    assert {name: said[name] for name in NAMES} == {name: title_of(name) for name in NAMES}


def test_scales_are_those_that_experiments_have() -> None:
    literal, _ = get_args(Scale)
    assert get_args(literal) == SCALES


def test_what_cannot_be_used(tmp_path: Path) -> None:
    code, _, error = invoke("optimal-tau", "--scale", "big", "--runs", str(tmp_path))
    assert code == 2
    assert all(word in error for word in ("big", *SCALES))
    code, _, error = invoke("optimal-tauu")
    assert code == 2
    assert "optimal-tau" in error


def test_after_an_interruption_it_continues_to_the_same_result(
    finished: Path, tmp_path: Path
) -> None:
    """Half of the runs are finished, the next is interrupted once it has begun, then continued."""
    runs = smoke("optimal-tau", tmp_path)
    run_here(runs, at_most=3)
    arguments = ["optimal-tau", "--scale", "smoke", "--runs", str(tmp_path)]
    process = subprocess.Popen(
        command(*arguments, "--jobs", "1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    begun = runs.all()[3].path / "history.jsonl"
    while not begun.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130, output
    assert "To continue, repeat the command." in output
    assert not (runs.folder / "verdict.json").exists()

    run_here(runs)
    code, continued, _ = invoke(*arguments, "--json")
    assert code == 0
    whole = summarize(smoke("optimal-tau", finished))
    assert json.loads(continued)["claims"] == to_json(whole)["claims"]
    assert (runs.folder / "figure.svg").read_text() == figure_svg(whole)


def test_what_a_person_sees(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    code, text, _ = invoke("optimal-tau", "--scale", "smoke", "--runs", str(tmp_path))
    assert code == 0
    assert "6 of 6 runs were finished before" in text
    assert "Optimal local steps and batch size" in text
    assert "Below 50 rounds, 10 steps on 6 samples have the highest accuracy" in text
    assert "figure, data and verdict:" in text


def test_results(finished: Path, tmp_path: Path) -> None:
    words = ["--scale", "smoke", "--runs", str(finished), "--out", str(tmp_path)]
    code, text, _ = invoke("results", *words)
    assert code == 0
    assert "results.md shows 1 of 12 experiments.\nNot run: batch-sizes," in text
    assert (tmp_path / "results.md").is_file()
    code, _, error = invoke("results", "--runs", str(tmp_path / "none"))
    assert code == 2
    assert "has no finished run" in error


def test_a_run_that_fails_does_not_stop_the_rest(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    broken = smoke("optimal-tau", tmp_path).all()[0].path
    (broken / "history.jsonl").write_text("")
    code, text, error = invoke("optimal-tau", "--scale", "smoke", "--runs", str(tmp_path), "--json")
    assert code == 1
    assert f"{broken.name} failed: it ended before its first round" in error
    summary = json.loads(text)
    assert (summary["finished_runs"], summary["runs"]) == (5, 6)


@pytest.mark.parametrize("words", [["optimal-tau", "--scale", "smoke"], ["results"]])
def test_without_matplotlib_it_says_what_to_install(words: list[str], tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["matplotlib"] = None
from dynamite_fl._cli.main import app
app({["experiment", *words]!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'dynamite-fl[report]'" in done.stderr
    assert not list(tmp_path.iterdir())
