"""Which controllers are compared, with which settings, and which runs have a result."""

from pathlib import Path

import pytest

from dynamite_fl.compare.contenders import Run, contenders_of, fixed_contender, result_of
from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.compare.summary import RunResult
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import Identity, RunFolder
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


def finished_run(path: Path, *records: RoundRecord) -> Run:
    """Return a run that is judged by its root mean square error."""
    folder = RunFolder(path)
    folder.begin("", Identity({}, leading_metric=RMSE))
    folder.history.write_text("".join(record.to_line() for record in records))
    folder.ended.write_text("rounds\n")
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
    assert result_of(finished_run(tmp_path, *records)) == reason
