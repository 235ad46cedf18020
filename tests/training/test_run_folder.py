"""The folder of one training: what it is of, and whether it has ended."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.identity import FORMAT, Identity
from dynamite_fl.training.run_folder import RunFolder

DATA = {"training data": "1", "test data": "2", "model": "3"}
RMSE = LeadingMetric("rmse", higher_is_better=False)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    begun = RunFolder(tmp_path / "a" / "run")
    begun.begin("seed = 1\n", Identity(DATA, ("/home/me",), RMSE))
    return begun


def test_what_was_begun_is_read_again(folder: RunFolder) -> None:
    folder.require_run()
    assert folder.is_run
    assert folder.job.read_text() == "seed = 1\n"
    assert folder.read_identity() == Identity(DATA, ("/home/me",), RMSE)
    assert folder.leading_metric() == RMSE
    assert {file.name for file in folder.path.iterdir()} == {"job.toml", "run.json"}


def test_a_folder_without_a_job_is_not_a_run(folder: RunFolder) -> None:
    folder.job.unlink()
    assert not folder.is_run
    with pytest.raises(RunFolderError, match=r"is not a run folder: it has no job\.toml"):
        folder.require_run()


def test_what_ended_a_run(folder: RunFolder) -> None:
    assert folder.stopped_by() is None
    folder.write_end("budget", last_check="1f")
    assert folder.is_finished
    assert folder.ends_with("1f")
    assert not folder.ends_with("2f")
    assert folder.stopped_by() == "budget"


def test_other_data_is_refused(folder: RunFolder) -> None:
    folder.check_same_data(DATA)
    with pytest.raises(RunFolderError, match="the test data and the model changed"):
        folder.check_same_data({**DATA, "test data": "9", "model": "9"})


def test_another_leading_metric_is_refused(folder: RunFolder) -> None:
    folder.check_same_metric(RMSE)
    words = "rmse, lower is better there, rmse, higher is better here"
    with pytest.raises(RunFolderError, match=words):
        folder.check_same_metric(LeadingMetric("rmse", higher_is_better=True))


def test_a_folder_without_an_identity_is_judged_by_its_accuracy(folder: RunFolder) -> None:
    folder.identity.unlink()
    assert folder.leading_metric() == ACCURACY
    assert folder.first_check() is None


@pytest.mark.parametrize(
    "metric", ["rmse", None, {"name": "rmse"}, {"name": 3, "higher_is_better": False}]
)
def test_a_damaged_leading_metric_is_refused(folder: RunFolder, metric: object) -> None:
    older = {"data": {}, "folders": [], "format": 2, "leading_metric": metric}
    folder.identity.write_text(json.dumps(older))
    for read in (folder.leading_metric, folder.read_identity):
        with pytest.raises(RunFolderError, match=r"run\.json is damaged"):
            read()


def test_a_run_of_an_older_version_is_refused(folder: RunFolder) -> None:
    folder.identity.unlink()
    with pytest.raises(RunFolderError, match=r"has no run\.json: an older version"):
        folder.read_identity()


def test_a_run_of_the_format_before_is_read_but_not_gone_on_with(folder: RunFolder) -> None:
    older = {"data": {}, "folders": [], "format": 2, "version": "0.0"}
    folder.identity.write_text(json.dumps(older))
    assert folder.read_identity().format == 2
    with pytest.raises(RunFolderError, match=r"begun by dynamite 0\.0, .* format 2"):
        folder.check_can_go_on()


def test_a_run_of_the_last_format_is_read_with_its_checks(folder: RunFolder) -> None:
    current = folder.first_check()
    folder.identity.write_text(replace(folder.read_identity(), format=3).to_text())
    assert folder.first_check() == current is not None
    with pytest.raises(RunFolderError, match=r"format 3"):
        folder.check_can_go_on()


def test_a_run_of_another_format_names_the_version_that_can_go_on(folder: RunFolder) -> None:
    saved = json.loads(folder.identity.read_text())
    folder.identity.write_text(json.dumps({**saved, "format": FORMAT + 1, "version": "9.8"}))
    with pytest.raises(RunFolderError, match=rf"begun by dynamite 9\.8, .* format {FORMAT + 1}"):
        folder.read_identity()


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"data": 1, "color": 2, "folders": []}'])
def test_a_damaged_identity_is_refused(folder: RunFolder, content: str) -> None:
    folder.identity.write_text(content)
    with pytest.raises(RunFolderError, match=r"run\.json is damaged"):
        folder.read_identity()
