import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from dynamite_fl.errors import DatasetError
from dynamite_fl.task.datasets.download import Source, download

CONTENT = bytes(range(256)) * 10_000


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def public(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return path.as_uri()


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("gzip/one.gz", b"one")
        file.writestr("../two.gz", b"two")
        file.writestr("gzip/readme.txt", b"no")
    return archive.getvalue()


def tarred() -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as file:
        for name in ("batches/one.gz", "../two.gz", "batches/readme.html"):
            entry = tarfile.TarInfo(name)
            entry.size = 3
            file.addfile(entry, io.BytesIO(Path(name).name[:3].encode()))
    return archive.getvalue()


def test_a_file_is_downloaded_and_its_progress_reported(tmp_path: Path) -> None:
    url = public(tmp_path / "there", CONTENT)
    seen: list[tuple[str, int, int | None]] = []
    folder = tmp_path / "cache" / "deep"
    download(Source("here", (url,), sha256(CONTENT)), folder, lambda *step: seen.append(step))
    assert (folder / "here").read_bytes() == CONTENT
    assert [path.name for path in folder.iterdir()] == ["here"]
    assert seen[-1] == ("here", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_the_next_address_is_tried(tmp_path: Path) -> None:
    bad, good = public(tmp_path / "bad", b"other"), public(tmp_path / "good", CONTENT)
    nowhere = (tmp_path / "nowhere").as_uri()
    download(Source("here", (nowhere, bad, good), sha256(CONTENT)), tmp_path / "cache")
    assert (tmp_path / "cache" / "here").read_bytes() == CONTENT


def test_a_failed_download_leaves_no_file(tmp_path: Path) -> None:
    bad = public(tmp_path / "bad", b"other")
    source = Source("here", ("https://127.0.0.1:9/here", bad), sha256(CONTENT))
    with pytest.raises(DatasetError, match="here could not be downloaded") as failure:
        download(source, tmp_path / "cache")
    assert "https://127.0.0.1:9/here: " in str(failure.value)
    assert f"{bad}: its checksum is {sha256(b'other')}, not {sha256(CONTENT)}" in str(failure.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_interrupted_download_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    source = Source("here", (public(tmp_path / "there", CONTENT),), sha256(CONTENT))
    with pytest.raises(KeyboardInterrupt):
        download(source, tmp_path / "cache", interrupt)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("content", [zipped(), tarred()], ids=["zip", "tar"])
def test_archives_are_unpacked_into_the_folder_only(tmp_path: Path, content: bytes) -> None:
    url = public(tmp_path / "there", content)
    download(Source("all", (url,), sha256(content), members=(".gz",)), tmp_path / "cache")
    contents = {path.name: path.read_bytes() for path in (tmp_path / "cache").iterdir()}
    assert contents == {"one.gz": b"one", "two.gz": b"two"}


def test_a_file_that_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    url = public(tmp_path / "there", CONTENT)
    with pytest.raises(DatasetError, match="all cannot be unpacked"):
        download(Source("all", (url,), sha256(CONTENT), members=(".gz",)), tmp_path / "cache")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DatasetError, match=r"here cannot be written to .*cache: "):
        download(Source("here", ("file:///x",), ""), tmp_path / "cache")
