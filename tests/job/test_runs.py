"""A run folder knows what it is of."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dynamite_fl.errors import RunFolderError
from dynamite_fl.job.runs import check_same_job, load_run, open_run
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.training.run_folder import RunFolder


@pytest.fixture
def begun(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    open_run(folder, load_training_job(), data={"training data": "1234", "model": "1"})
    folder.history.write_text("a round was trained\n")
    return folder


def job(*overrides: str) -> TrainingJob:
    return load_training_job(overrides=overrides)


def test_a_folder_holds_its_job(begun: RunFolder) -> None:
    assert load_run(begun).tables == load_training_job().tables
    open_run(begun, job(), data={"training data": "1234", "model": "1"})  # the same run may go on


@pytest.mark.parametrize(
    ("override", "difference"),
    [
        ("training.learning_rate=99", "training.learning_rate is not set there and 99 here"),
        ("limits.deadline=7", "limits.deadline is 120 there and 7 here"),
        ("devices=vm20", "devices is "),
        ("server=fedexp", 'server is not set there and { name = "fedexp"'),
        ("training.seed=1", "training.seed is 0 there and 1 here"),
        ("stream.preset=burst", "stream is not set there and "),
        ("task.model=softmax", 'task.model is "perceptron" there and "softmax" here'),
    ],
)
def test_another_job_is_refused_with_what_differs(
    begun: RunFolder, override: str, difference: str
) -> None:
    with pytest.raises(RunFolderError) as refused:
        open_run(begun, job(override), data={"training data": "1234", "model": "1"})
    assert difference in str(refused.value)
    assert str(begun.path) in str(refused.value)


@pytest.mark.parametrize("override", ["training.workers=2", 'training.track=["tensorboard"]'])
def test_what_changes_no_result_may_differ(begun: RunFolder, override: str) -> None:
    check_same_job(begun, job(override))


def test_other_data_is_refused(begun: RunFolder) -> None:
    with pytest.raises(RunFolderError, match="the training data changed"):
        open_run(begun, job(), data={"training data": "5678", "model": "1"})


def test_an_incompatible_version_is_refused(begun: RunFolder) -> None:
    kept = json.loads(begun.identity.read_text())
    begun.identity.write_text(json.dumps({**kept, "format": 99, "version": "9.9"}))
    with pytest.raises(RunFolderError, match=r"begun by dynamite 9.9, whose files have format 99"):
        load_run(begun)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"data": 3}', '{"folders": 3, "data": ""}'])
def test_a_damaged_identity_is_refused(begun: RunFolder, text: str) -> None:
    begun.identity.write_text(text)
    with pytest.raises(RunFolderError, match=r"run.json is damaged"):
        load_run(begun)


def test_a_folder_of_an_older_version_is_refused(begun: RunFolder) -> None:
    begun.identity.unlink()
    with pytest.raises(RunFolderError, match="an older version"):
        load_run(begun)


def test_a_job_that_was_damaged_is_refused(begun: RunFolder) -> None:
    begun.job.write_text("[limits]\n")
    with pytest.raises(RunFolderError, match=r"job.toml cannot be used"):
        load_run(begun)


def test_a_run_that_trained_nothing_may_be_begun_anew(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    open_run(folder, job("training.learning_rate=99"), data={})
    open_run(folder, job(), data={})
    assert load_run(folder).settings.learning_rate is None


def test_what_another_job_left_before_it_trained_anything_is_removed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    open_run(folder, job(), data={}, is_real=True)
    for path in (folder.nodes, folder.releases):
        path.write_text("of this job")
    open_run(folder, job(), data={}, is_real=True)  # the same job may have spent some privacy
    assert folder.nodes.exists()
    assert folder.releases.exists()
    open_run(folder, job("training.learning_rate=0.5"), data={}, is_real=True)
    assert not folder.nodes.exists()
    assert not folder.releases.exists()


def test_real_machines_and_simulations_do_not_go_on_with_each_others_runs(
    begun: RunFolder, tmp_path: Path
) -> None:
    data = {"training data": "1234", "model": "1"}
    with pytest.raises(RunFolderError, match="is a simulated run: go on with dynamite resume"):
        open_run(begun, job(), data=data, is_real=True)
    served = RunFolder(tmp_path / "served")
    open_run(served, job(), data=data, is_real=True)
    served.history.write_text("a round was trained\n")
    assert served.first_check() != begun.first_check()
    open_run(served, job(), data=data, is_real=True)
    with pytest.raises(RunFolderError, match="is a run on real machines: go on with dynamite"):
        open_run(served, job(), data=data)


def test_a_job_file_says_the_same_as_its_run_folder(begun: RunFolder) -> None:
    """All defaults are written out, so that a later version with others changes nothing."""
    tables = load_run(begun).tables
    assert tables["training"]["probe_every"] == 1
    assert tables["limits"]["max_local_steps"] == 100
    assert tables["devices"]["dropout"] == [0.0] * 10


def test_a_folder_says_which_server_was_the_default(begun: RunFolder, tmp_path: Path) -> None:
    assert begun.read_identity().default_server == "extrapolation"
    for number, override in enumerate(["training.learning_rate=1", "server=fedexp"]):
        other = RunFolder(tmp_path / str(number))  # here the average is the default, or none is
        open_run(other, job(override), data={"model": "1"})
        assert other.read_identity().default_server == ""


def test_another_default_of_the_server_is_refused(begun: RunFolder) -> None:
    earlier = replace(begun.read_identity(), default_server="fedexp")
    begun.identity.write_text(earlier.to_text())
    with pytest.raises(RunFolderError, match=r"was fedexp by default \(now extrapolation\)"):
        open_run(begun, job(), data={"training data": "1234", "model": "1"})
    unknown = replace(earlier, default_server="")  # of a version that did not write it down
    begun.identity.write_text(unknown.to_text())
    open_run(begun, job(), data={"training data": "1234", "model": "1"})
