"""Histories: their figures, and reading files that may be damaged."""

import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.errors import MissingExtra, RunFolderError
from dynamite_fl.training.history import (
    History,
    read_history,
    recover_history,
)
from dynamite_fl.training.history_file import HistoryFile
from dynamite_fl.training.identity import Identity
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from tests.processes import run_python
from tests.training.records import record

RECORDS = (
    record(1, accuracy=0.3, class_accuracy={"0": 0.5, "1": None, "2": 0.1}),
    record(2, accuracy=0.6, class_accuracy={"0": 0.5, "1": None, "2": 0.25}),
    record(3),
    record(4, accuracy=0.5),
)
RMSE = LeadingMetric("rmse", higher_is_better=False)
LOSS = LeadingMetric("loss", higher_is_better=False)
ERRORS = History(
    (
        record(1, metrics={"rmse": 3.0, "r2": 0.1}, loss=9.0, client_metrics=(2.0, None, 4.0)),
        record(2, metrics={"rmse": 1.0, "r2": 0.9}, loss=1.0, client_metrics=(1.5, 0.25, None)),
        record(3),
        record(4, metrics={"rmse": 2.0, "r2": None}, loss=4.0),
    ),
    RMSE,
)


def written(folder: Path, *records: RoundRecord) -> Path:
    file = HistoryFile(RunFolder(folder))
    for each in records:
        file.append(each)
    return folder / "history.jsonl"


def test_figures_by_hand() -> None:
    history = History(RECORDS)
    assert len(history) == 4
    assert list(history) == list(RECORDS)
    assert history[-1].round == 4
    assert history[1:3] == History(RECORDS[1:3])
    assert (history.final, history.best) == (0.5, 0.6)
    assert history.last("accuracy") == 0.5
    assert history.last("class_accuracy") == RECORDS[1].class_accuracy
    assert history.worst_class == ("2", 0.25)  # class 1 was not evaluated
    reached = history.first_reaching(0.5)
    assert reached is not None
    assert (reached.seconds, reached.cost) == (20.0, 4.0)
    assert history.first_reaching(0.7) is None


def test_figures_of_a_metric_of_which_lower_is_better_by_hand() -> None:
    assert (ERRORS.final, ERRORS.best) == (2.0, 1.0)
    reached = [ERRORS.first_reaching(target) for target in (3.5, 2.5, 1.0, 0.9)]
    assert [record and record.round for record in reached] == [1, 2, 2, None]
    assert ERRORS[1:].leading_metric == ERRORS[2:].leading_metric == RMSE
    assert ERRORS[:1].final == 3.0


def test_the_worst_client_is_the_one_with_the_largest_error() -> None:
    """They are those of round 2; the third client's error was infinite there."""
    assert ERRORS.worst_client == (0, 1.5)
    assert ERRORS.client_mean == 0.875
    accuracies = History(ERRORS.records)
    assert accuracies.leading_metric == ACCURACY
    assert accuracies.worst_client == (1, 0.25)
    assert History(RECORDS).worst_client is None
    assert History(RECORDS).client_mean is None
    unknown = History((record(1, client_metrics=(None, None)),))
    assert (unknown.worst_client, unknown.client_mean) == (None, None)


def test_the_loss_leads_where_there_is_no_metric() -> None:
    history = History((record(1, metrics={}, loss=2.0), record(2, metrics={}, loss=3.0)), LOSS)
    assert (history.final, history.best) == (3.0, 2.0)
    assert history.final_metrics == {"loss": 3.0}
    assert history.metric_names == []


def test_a_metric_that_is_not_finite_at_the_end_is_not_that_of_a_round_before() -> None:
    history = History((*ERRORS, record(5, metrics={"rmse": None, "r2": None}, loss=None)), RMSE)
    assert math.isnan(history.final)
    assert all(math.isnan(value) for value in history.final_metrics.values())
    assert list(history.final_metrics) == ["rmse", "r2", "loss"]
    assert history.best == 1.0
    assert history.last("rmse") == 2.0


def test_without_an_evaluation_there_is_no_accuracy() -> None:
    history = History((record(1, class_accuracy={"0": None}),))
    assert math.isnan(history.final)
    assert math.isnan(history.best)
    assert history.final_metrics == {}
    assert history.last("accuracy") is None
    assert history.worst_class is None
    assert not History()


def test_columns_have_an_entry_for_each_round() -> None:
    columns = History(RECORDS).columns()
    assert columns["accuracy"] == [0.3, 0.6, None, 0.5]
    assert columns["class_accuracy"][2] is None
    assert "stream_loss" not in columns
    assert "metrics" not in columns
    assert {len(column) for column in columns.values()} == {4}


def test_every_metric_has_a_column() -> None:
    columns = ERRORS.columns()
    assert columns["rmse"] == [3.0, 1.0, None, 2.0]
    assert columns["r2"] == [0.1, 0.9, None, None]
    names = list(columns)
    assert names[names.index("rmse") :][:3] == ["rmse", "r2", "loss"]
    assert columns["client_metrics"][2:] == [None, None]


def test_pandas_gets_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = ModuleType("pandas")
    pandas.DataFrame = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert History(RECORDS).to_pandas() == History(RECORDS).columns()


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"dynamite-fl\[pandas\]"):
        History(RECORDS).to_pandas()


def test_a_sound_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = written(tmp_path, *RECORDS)
    assert read_history(file) == History(RECORDS)
    recovered = recover_history(file)
    assert recovered.history == History(RECORDS)
    assert recovered.problems == ()


def test_the_leading_metric_is_that_of_the_run(tmp_path: Path) -> None:
    file = written(tmp_path, *ERRORS)
    assert read_history(file).leading_metric == ACCURACY  # of a file that is alone
    file.unlink()
    RunFolder(tmp_path).begin("", Identity({}, leading_metric=RMSE))
    file = written(tmp_path, *ERRORS)
    assert read_history(file) == ERRORS
    assert recover_history(file).history == ERRORS


def test_a_damaged_identity_is_refused_or_noted(tmp_path: Path) -> None:
    file = written(tmp_path, *RECORDS)
    (tmp_path / "run.json").write_text("[1")
    with pytest.raises(RunFolderError, match=r"run\.json is damaged"):
        read_history(file)
    recovered = recover_history(file)
    assert recovered.history == History(RECORDS)
    (problem,) = recovered.problems
    assert "the metric that leads is unknown, and accuracy is assumed" in problem


def test_a_last_line_that_is_cut_off_is_ignored_and_noted(tmp_path: Path) -> None:
    file = written(tmp_path, *RECORDS)
    file.write_text(file.read_text()[:-20])
    assert read_history(file) == History(RECORDS[:3])
    recovered = recover_history(file)
    assert recovered.history == History(RECORDS[:3])
    assert recovered.problems == ("the history is cut off in the middle of its last line",)


def test_damaged_lines_are_refused_or_left_out_and_counted(tmp_path: Path) -> None:
    file = written(tmp_path, RECORDS[0])
    file.write_bytes(file.read_bytes() + b"words\n\xff\xfe{\n" + RECORDS[1].to_line().encode())
    recovered = recover_history(file)
    assert recovered.history == History(RECORDS[:2])
    assert recovered.problems == (
        "2 of the 4 lines of the history do not describe a round and are left out: "
        "line 2 and others",
    )
    file.write_text(RECORDS[0].to_line() + "words\n")
    with pytest.raises(RunFolderError, match="line 2 does not describe a round"):
        read_history(file)


def test_lines_that_do_not_fit_are_refused_or_left_out(tmp_path: Path) -> None:
    """Of a line that stands twice, the second one does not follow the one before it."""
    RunFolder(tmp_path).begin("", Identity({}))
    file = written(tmp_path, *RECORDS)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:2], *lines[1:]]))
    with pytest.raises(RunFolderError, match="line 3 was changed or doubled"):
        read_history(file)
    recovered = recover_history(file)
    assert recovered.history == History(RECORDS)
    (problem,) = recovered.problems
    assert problem == (
        "1 of the 5 lines of the history was changed or doubled, or is of another run, and is "
        "left out: line 3"
    )


def test_a_history_of_an_older_version_has_no_checks(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.identity.write_text('{"data": {}, "folders": [], "format": 2, "version": "0.0"}')
    folder.history.write_text("".join(record.to_line() for record in RECORDS))
    folder.ended.write_text("budget\n")
    assert read_history(folder.history) == History(RECORDS)
    assert recover_history(folder.history).problems == ()


def test_a_history_is_read_without_numpy_and_torch(tmp_path: Path) -> None:
    """The module imports the standard library alone."""
    script = f"""
import sys
from pathlib import Path
from dynamite_fl.training.history import read_history
assert len(read_history(Path({str(written(tmp_path, *RECORDS))!r}))) == 4
assert not {{"numpy", "torch"}} & set(sys.modules)
"""
    result = run_python(script)
    assert result.returncode == 0, result.stderr
