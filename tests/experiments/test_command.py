"""`dynamite experiment` as a user runs it: listing, interruption, what cannot be used."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from dynamite_fl.cli import app
from dynamite_fl.experiment_cli import Scale, experiment_app
from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.experiment import SCALES
from dynamite_fl.experiments.read import load_experiment
from tests.experiments.plays import play, smoke


def command(*words: str) -> list[str]:
    start = [sys.executable, "-c", "from dynamite_fl.cli import main; main()", "experiment"]
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
    assert {name: said[name] for name in NAMES} == {
        name: load_experiment(name).title for name in NAMES
    }


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


def test_interrupted_it_goes_on_to_the_same_result(tmp_path: Path) -> None:
    """Half of the runs are there; the rest is interrupted once it has begun, then gone on with."""
    there, whole = smoke("optimal-tau", tmp_path / "a"), smoke("optimal-tau", tmp_path / "b")
    play(there, at_most=4)
    play(whole)
    words = command("optimal-tau", "--scale", "smoke", "--runs", str(tmp_path / "a"), "--jobs", "1")
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ}
    )
    begun = there.parts()[4].run.path / "history.jsonl"
    for _ in range(600):
        if begun.exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "To go on, repeat the command." in output
    assert not (there.folder / "verdict.json").exists()

    play(there)
    both = [str(each.runs) for each in (there, whole)]
    texts = [
        invoke("optimal-tau", "--scale", "smoke", "--runs", runs, "--json")[1] for runs in both
    ]
    assert json.loads(texts[0])["claims"] == json.loads(texts[1])["claims"]
    figures = [(each.folder / "figure.svg").read_text() for each in (there, whole)]
    assert figures[0] == figures[1]


def test_a_folder_of_another_job_is_refused(tmp_path: Path) -> None:
    plays = smoke("optimal-tau", tmp_path)
    path = plays.parts()[0].run.path
    path.mkdir(parents=True)
    (path / "job.toml").write_text("[limits]\n")
    code, _, error = invoke("optimal-tau", "--scale", "smoke", "--runs", str(tmp_path))
    assert code == 2
    assert "holds a run of another job: choose another --runs" in error


def test_a_run_that_fails_does_not_stop_the_rest(tmp_path: Path) -> None:
    plays = smoke("optimal-tau", tmp_path)
    play(plays)
    broken = plays.parts()[0].run.path
    (broken / "history.jsonl").write_text("")
    code, text, error = invoke("optimal-tau", "--scale", "smoke", "--runs", str(tmp_path), "--json")
    assert code == 1
    assert f"{broken.name} failed: it ended before its first round" in error
    found = json.loads(text)
    assert (found["finished_runs"], found["runs"]) == (5, 6)


@pytest.mark.parametrize("words", [["optimal-tau", "--scale", "smoke"], ["results"]])
def test_without_matplotlib_it_says_what_to_install(words: list[str], tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["matplotlib"] = None
from dynamite_fl.cli import app
app({["experiment", *words]!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'dynamite-fl[report]'" in done.stderr
    assert not list(tmp_path.iterdir())
