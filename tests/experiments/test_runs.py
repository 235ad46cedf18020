"""Runs of an experiment: what is missing, what failed, and whose folders are refused."""

import shutil
from pathlib import Path

import pytest

from dynamite_fl.errors import RunFolderError
from dynamite_fl.experiments.run_record import record_file
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
    record_file(first.path).unlink()
    (first.path / "history.jsonl").write_text("")
    broken = read_outcome(runs)
    assert list(broken.failures) == [first.name]
    assert "history.jsonl is damaged" in broken.failures[first.name]
    assert broken.finished == 1


def test_a_run_with_a_record_is_finished_without_its_folder(tmp_path: Path) -> None:
    runs = smoke("batch-sizes", tmp_path)
    first, *waiting = runs.all()
    run_here(runs, at_most=1)
    before = read_outcome(runs)
    shutil.rmtree(first.path)
    assert [run.name for run in runs.waiting()] == [run.name for run in waiting]
    assert read_outcome(runs) == before


def test_a_record_of_another_job_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    runs = smoke("batch-sizes", tmp_path)
    first, second, *_ = runs.all()
    run_here(runs, at_most=1)
    read_outcome(runs)
    record_file(first.path).rename(record_file(second.path))
    with pytest.raises(RunFolderError, match=r"holds a run of another job .*: remove it to train"):
        runs.waiting()


def test_a_folder_of_another_job_is_refused(tmp_path: Path) -> None:
    runs = smoke("batch-sizes", tmp_path)
    folder = RunFolder(runs.all()[0].path)
    open_run(folder, load_training_job(), data={})
    folder.history.write_text("a round was trained\n")
    with pytest.raises(RunFolderError, match=r"holds a run of another job"):
        runs.all()
