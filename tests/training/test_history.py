"""Histories: their figures, and reading files that may be damaged."""

import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dynamite_fl.errors import MissingExtra, RunFolderError
from dynamite_fl.training.history import (
    History,
    keep_first_rounds,
    read_history,
    recover_history,
)
from dynamite_fl.training.round_record import RoundRecord
from tests.processes import run_python
from tests.training.records import record

RECORDS = (
    record(1, accuracy=0.3, class_accuracy={"0": 0.5, "1": None, "2": 0.1}),
    record(2, accuracy=0.6, class_accuracy={"0": 0.5, "1": None, "2": 0.25}),
    record(3),
    record(4, accuracy=0.5),
)


def written(folder: Path, *records: RoundRecord) -> Path:
    file = folder / "history.jsonl"
    file.write_text("".join(record.to_line() for record in records))
    return file


def test_figures_by_hand() -> None:
    history = History(RECORDS)
    assert len(history) == 4
    assert list(history) == list(RECORDS)
    assert history[-1].round == 4
    assert history[1:3] == History(RECORDS[1:3])
    assert (history.final_accuracy, history.best_accuracy) == (0.5, 0.6)
    assert history.last("class_accuracy") == RECORDS[1].class_accuracy
    assert history.worst_class == ("2", 0.25)  # class 1 was not evaluated
    reached = history.first_reaching(0.5)
    assert reached is not None
    assert (reached.seconds, reached.cost) == (20.0, 4.0)
    assert history.first_reaching(0.7) is None


def test_without_an_evaluation_there_is_no_accuracy() -> None:
    history = History((record(1, class_accuracy={"0": None}),))
    assert math.isnan(history.final_accuracy)
    assert math.isnan(history.best_accuracy)
    assert history.last("accuracy") is None
    assert history.worst_class is None
    assert not History()


def test_columns_have_an_entry_for_each_round() -> None:
    columns = History(RECORDS).columns()
    assert columns["accuracy"] == [0.3, 0.6, None, 0.5]
    assert columns["class_accuracy"][2] is None
    assert "stream_loss" not in columns
    assert {len(column) for column in columns.values()} == {4}


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


def test_first_rounds_are_kept_to_the_byte(tmp_path: Path) -> None:
    file = written(tmp_path, *RECORDS)
    before = file.read_bytes()
    keep_first_rounds(file, 2)
    assert read_history(file) == History(RECORDS[:2])
    assert before.startswith(file.read_bytes())


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
