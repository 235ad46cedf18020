import os
from pathlib import Path

import pytest

from dynamite_fl._atomic import (
    append_line,
    remove_leftovers,
    write_atomically,
    write_bytes_atomically,
)
from dynamite_fl.errors import OutputError


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_atomically(path, "old\n")
    write_atomically(path, "a,b\n1,ü\n")
    assert path.read_bytes() == "a,b\n1,ü\n".encode()
    assert list(tmp_path.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_the_disk_has_the_content_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power failure could leave an empty file in place of the old one."""
    path, on_disk = tmp_path / "table.csv", list[tuple[bytes, str]]()
    path.write_text("old")

    def fsync(descriptor: int) -> None:
        (temporary,) = set(tmp_path.iterdir()) - {path}
        assert os.path.samestat(os.fstat(descriptor), temporary.stat())
        on_disk.append((temporary.read_bytes(), path.read_text()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, "new")
    assert on_disk == [(b"new", "old")]
    assert path.read_text() == "new"


def test_a_line_is_on_the_disk_when_it_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, on_disk = tmp_path / "lines.txt", list[str]()
    monkeypatch.setattr(os, "fsync", lambda _: on_disk.append(path.read_text()))
    append_line(path, "one\n")
    append_line(path, "two\n")
    assert on_disk == ["one\n", "one\ntwo\n"]


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


def test_lines_are_added_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    for text in ("one\n", "two\n"):
        append_line(file, text)
    assert file.read_text() == "one\ntwo\n"


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    write_atomically(tmp_path / "table.csv", "a,b\n")
    (tmp_path / ".writing-1").write_text("a,")
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_the_former_content_is_kept(tmp_path: Path) -> None:
    path, former = tmp_path / "new", tmp_path / "former"
    write_bytes_atomically(path, b"1", keep_as=former)
    assert not former.exists()
    for number in (b"2", b"3"):
        write_bytes_atomically(path, number, keep_as=former)
    assert (path.read_bytes(), former.read_bytes()) == (b"3", b"2")


def test_a_pipe_that_nobody_reads_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for write in (write_atomically, append_line):
        with pytest.raises(OutputError, match="cannot be written"):
            write(tmp_path / "pipe", "words\n")
        with pytest.raises(OutputError, match="cannot be written"):
            write(tmp_path, "words\n")
