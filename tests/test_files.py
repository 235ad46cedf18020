import os
from pathlib import Path

import pytest

from dynamite_fl.files import write_atomically


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_atomically(path, "old\n")
    write_atomically(path, "a,b\n1,ü\n")
    assert path.read_bytes() == "a,b\n1,ü\n".encode()
    assert list(tmp_path.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_atomically(path, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new\n" * 10_000 + "\ud800")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]
