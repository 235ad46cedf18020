"""Which controllers are compared, with which settings, and which runs have a result."""

from pathlib import Path

import pytest

from dynamite_fl.compare.contenders import (
    NoResult,
    Run,
    contenders_of,
    fixed_contender,
    result_of,
    runs_of,
)
from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.compare.summary import RunResult
from dynamite_fl.control.registry import CONTROLLERS, make_controller
from dynamite_fl.errors import InvalidInput
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.history_file import HistoryFile
from dynamite_fl.training.identity import Identity
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from tests.regressions import RMSE
from tests.training.records import record


def test_contenders_by_default_and_their_settings() -> None:
    job = load_training_job(overrides=["controller={name='fedavg', local_steps=7}"])
    contenders = {contender.name: contender.table for contender in contenders_of(job, None)}
    assert {"dynamite", "fedavg", "no-straggler", "dbfl", "dynamic-tau"} <= contenders.keys()
    assert "fixed" not in contenders
    assert contenders["fedavg"] == {"name": "fedavg", "local_steps": 7}
    assert contenders["dynamite"] == {"name": "dynamite"}


def test_a_fixed_setting_is_a_contender() -> None:
    contender = fixed_contender(FixedSetting(5, 32))
    assert contender.name == "fixed-5x32"
    assert contender.table == {"name": "fixed", "local_steps": 5, "batch_size": 32}
    assert contender.learning_rate is None
    assert fixed_contender(FixedSetting(5, 32, 0.3)).learning_rate == 0.3


def test_rates_and_servers_of_contenders_are_in_their_jobs(tmp_path: Path) -> None:
    job = load_training_job(overrides=["server={name='fedavgm', momentum=0.5}"])
    names = ["fedavg", "fedavg@0.30", "fedavgm@0.1", "fedadam@0.1x0.01", "dynamite@2"]
    runs = runs_of(job, contenders_of(job, names), [7], tmp_path)
    assert [run.name for run in runs] == [
        "fedavg-7",
        "fedavg@0.3-7",
        "fedavgm@0.1-7",
        "fedadam@0.1x0.01-7",
        "dynamite@2-7",
    ]
    tables = [run.job.tables for run in runs]
    rates = [table["training"].get("learning_rate") for table in tables]
    assert rates == [job.settings.learning_rate, 0.3, 0.1, 0.1, 2.0]
    assert [table["controller"]["name"] for table in tables] == ["fedavg"] * 4 + ["dynamite"]
    momentum = {"name": "fedavgm", "learning_rate": 1.0, "momentum": 0.5}  # the job's own
    assert [table["server"] for table in tables[:3]] == [momentum] * 3
    assert tables[3]["server"]["name"] == "fedadam"
    assert tables[3]["server"]["learning_rate"] == 0.01
    assert tables[4]["server"] == momentum


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fedavg@0.1x0.2", "fedavg has no rate at the server"),
        ("fedexp@0.1x0.2", "server fedexp has no setting 'learning_rate'"),
        ("fedavg@fast", "has no learning rate after the @"),
        ("fedadm@0.1", "there is no controller 'fedadm'"),
    ],
)
def test_wrong_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        contenders_of(load_training_job(), [name])


def finished_run(path: Path, *records: RoundRecord) -> Run:
    """Return a run that is judged by its root mean square error."""
    folder = RunFolder(path)
    folder.begin("", Identity({}, leading_metric=RMSE))
    folder.history.touch()
    file = HistoryFile(folder)
    for each in records:
        file.append(each)
    folder.write_end("rounds", file.last_check)
    return Run("fedavg", 0, path, load_training_job())


def test_the_result_of_a_run_has_its_leading_metric(tmp_path: Path) -> None:
    run = finished_run(tmp_path, record(1, metrics={"rmse": 2.0, "mae": 1.0}), record(2))
    result = result_of(run)
    assert isinstance(result, RunResult)
    assert (result.history.leading_metric, result.history.final) == (RMSE, 2.0)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([], "it ended before its first round"),
        ([record(1)], "its model was never evaluated: lower training.evaluate_every"),
        (
            [record(1, metrics={"rmse": 2.0}), record(2, metrics={"rmse": None})],
            "its RMSE is not a number at the end",
        ),
    ],
)
def test_runs_without_a_result_say_why(
    tmp_path: Path, records: list[RoundRecord], reason: str
) -> None:
    result = result_of(finished_run(tmp_path, *records))
    assert isinstance(result, NoResult)
    assert result.reason == reason
    assert result.has_diverged == ("not a number" in reason)


def test_a_run_that_diverged_is_finished_and_says_so(tmp_path: Path) -> None:
    run = finished_run(tmp_path, record(1, metrics={"rmse": 2.0}))
    assert isinstance(result_of(run), RunResult)
    RunFolder(tmp_path).ended.unlink()
    RunFolder(tmp_path).diverged.write_text("all updates were refused\n")
    assert run.is_finished
    assert result_of(run) == NoResult("all updates were refused", has_diverged=True)


def test_contenders_with_privacy_measure_no_losses() -> None:
    """The list of names is that of the controllers themselves."""
    job = load_training_job(overrides=["privacy.clip_norm=1"])
    names = {contender.name for contender in contenders_of(job, None)}
    assert names == {"dynamite-feedback", "fedavg", "uniform", "no-straggler", "dbfl"}
    refused = set(CONTROLLERS) - names - {"fixed", "cooptfl"}
    assert all(
        make_controller(name, learning_rate=0.1).measures == "loss" for name in sorted(refused)
    )
