"""Runs of an experiment: what is missing, what failed, and whose folders are refused."""

from pathlib import Path

import pytest

from dynamite_fl.errors import RunFolderError
from dynamite_fl.experiments.runs import read_outcome
from dynamite_fl.job.runs import open_run
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.run_folder import RunFolder
from tests.experiments.smoke import ORIGIN, run_here, smoke


def test_finished_runs_are_read_and_the_rest_is_waiting(tmp_path: Path) -> None:
    runs = smoke("batch-sizes", tmp_path)
    first, second, *waiting = runs.all()
    run_here(runs, at_most=2)
    assert [run.name for run in runs.waiting()] == [run.name for run in waiting]
    outcome = read_outcome(runs)
    assert (outcome.finished, outcome.runs, outcome.seeds) == (2, 8, [0])
    assert list(outcome.histories["mnist-5"]) == [first.contender, second.contender]
    assert outcome.origins == [ORIGIN]
    (first.path / "history.jsonl").write_text("")
    broken = read_outcome(runs)
    assert list(broken.failures) == [first.name]
    assert "history.jsonl is damaged" in broken.failures[first.name]
    assert broken.finished == 1


def test_a_folder_of_another_job_is_refused(tmp_path: Path) -> None:
    runs = smoke("batch-sizes", tmp_path)
    folder = RunFolder(runs.all()[0].path)
    open_run(folder, load_training_job(), data={})
    folder.history.write_text("a round was trained\n")
    with pytest.raises(RunFolderError, match="holds a run of another job"):
        runs.all()
