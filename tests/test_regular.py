"""Reading files that others may have prepared."""

import os
from pathlib import Path

import pytest

from dynamite_fl._regular import read_regular, read_regular_text


def test_regular_files_are_read(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"a\xff")
    link.symlink_to(file)
    assert read_regular(file) == read_regular(link) == b"a\xff"
    assert read_regular_text(file) == "a\ufffd"
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")


def test_other_files_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 1 << 40)
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match=r"it is not a regular file|Is a directory"):
            read_regular(path)
    with pytest.raises(OSError, match="it has more than 4,000,000,000 bytes"):
        read_regular(tmp_path / "hole")
