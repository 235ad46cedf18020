import json
from pathlib import Path

import pytest

from dynamite_fl.errors import RunFolderError
from dynamite_fl.flower.names_file import Names, read_names, write_names
from dynamite_fl.training.identity import Identity
from dynamite_fl.training.run_folder import RunFolder

NAMES = Names("a1b2", ["ward", "lab", "office"])


def begun(path: Path, model: str = "1f") -> RunFolder:
    folder = RunFolder(path)
    folder.begin("", Identity({"model": model}, is_real=True))
    return folder


def test_names_are_read_as_they_were_written(tmp_path: Path) -> None:
    folder = begun(tmp_path / "a")
    assert read_names(folder.nodes) is None
    write_names(folder.nodes, NAMES)
    assert read_names(folder.nodes) == NAMES


def test_no_flipped_bit_is_believed(tmp_path: Path) -> None:
    folder = begun(tmp_path / "a")
    write_names(folder.nodes, NAMES)
    right = folder.nodes.read_bytes()
    for place in range(len(right) - 1):  # the last byte ends the line
        wrong = bytearray(right)
        wrong[place] ^= 1 << place % 8
        folder.nodes.write_bytes(wrong)
        with pytest.raises(RunFolderError, match="damaged or of another run"):
            read_names(folder.nodes)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "1", "[" * 20_000, '{"names": []}'])
def test_a_file_that_is_no_list_of_names_is_refused(tmp_path: Path, content: str) -> None:
    folder = begun(tmp_path / "a")
    folder.nodes.write_text(content)
    with pytest.raises(RunFolderError, match="damaged or of another run"):
        read_names(folder.nodes)


def test_the_file_of_another_run_is_refused(tmp_path: Path) -> None:
    folder, other = begun(tmp_path / "a"), begun(tmp_path / "b", "2f")
    write_names(other.nodes, NAMES)
    folder.nodes.write_bytes(other.nodes.read_bytes())
    with pytest.raises(RunFolderError, match="of another run"):
        read_names(folder.nodes)


def test_a_missing_file_is_an_error_once_rounds_were_trained(tmp_path: Path) -> None:
    folder = begun(tmp_path / "a")
    folder.history.write_text(json.dumps({"round": 1}) + "\n")
    with pytest.raises(RunFolderError, match="is missing, though rounds were trained"):
        read_names(folder.nodes)
    folder.nodes.symlink_to("/dev/zero")
    with pytest.raises(RunFolderError, match="it is not a regular file"):
        read_names(folder.nodes)
