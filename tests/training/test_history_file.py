"""The file of a history: what is added, kept and missing."""

from pathlib import Path

import pytest

from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.history import History, read_history
from dynamite_fl.training.history_file import HistoryFile, keep_first_rounds
from dynamite_fl.training.identity import Identity
from dynamite_fl.training.run_folder import RunFolder
from tests.training.records import record


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    begun = RunFolder(tmp_path)
    begun.begin("", Identity({}))
    return begun


def test_rounds_are_added_and_the_first_are_kept_to_the_byte(folder: RunFolder) -> None:
    file = HistoryFile(folder)
    for number in (1, 2):
        file.append(record(number))
    kept, check = folder.history.read_bytes(), file.last_check
    HistoryFile(folder).append(record(3))
    assert read_history(folder.history) == History((record(1), record(2), record(3)))
    keep_first_rounds(folder, 2, check)
    assert folder.history.read_bytes() == kept
    assert HistoryFile(folder).last_check == check
    with pytest.raises(RunFolderError, match="does not hold the rounds 1 to 3 of its checkpoint"):
        keep_first_rounds(folder, 3, check)
    with pytest.raises(RunFolderError, match="does not hold the rounds 1 to 1 of its checkpoint"):
        keep_first_rounds(folder, 1, check)


def test_a_history_of_no_rounds(folder: RunFolder) -> None:
    folder.history.touch()
    keep_first_rounds(folder, 0, HistoryFile(folder).last_check)
    with pytest.raises(RunFolderError):
        keep_first_rounds(folder, 0, "of another run")
    assert len(read_history(folder.history)) == 0


def test_a_finished_run_has_the_history_that_it_ended_with(folder: RunFolder) -> None:
    file = HistoryFile(folder)
    file.append(record(1))
    folder.write_end("budget", file.last_check)
    assert len(read_history(folder.history)) == 1
    assert folder.stopped_by() == "budget"
    folder.ended.write_text(folder.ended.read_text().replace("budget", "rounds"))
    with pytest.raises(RunFolderError, match="not the history that the run ended with"):
        read_history(folder.history)
    folder.ended.write_text("budget\n")
    with pytest.raises(RunFolderError, match="not the history that the run ended with"):
        read_history(folder.history)
