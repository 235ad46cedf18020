import os
from pathlib import Path

import pytest

from dynamite_fl._atomic import write_atomically


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_atomically(path, "old\n")
    write_atomically(path, "a,b\n1,ü\n")
    assert path.read_bytes() == "a,b\n1,ü\n".encode()
    assert list(tmp_path.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_links_permissions_and_long_names(tmp_path: Path) -> None:
    path, link = tmp_path / ("x" * 250), tmp_path / "link"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_is_written_to() -> None:
    write_atomically(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_atomically(path, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new\n" * 10_000 + "\ud800")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]
