"""Samples that arrive as files in a folder."""

from pathlib import Path

import pytest

from dynamite_fl.client.local_data.sources import FolderSource
from dynamite_fl.client.local_data.store import SampleStore
from dynamite_fl.errors import InvalidInput
from dynamite_fl.stream.buffer import Storage
from tests.client.local_data.samples import FORMAT, NOTHING_NEEDED, put, stored


def test_files_are_taken_once_in_the_order_of_their_names_and_stay(tmp_path: Path) -> None:
    store = SampleStore(FORMAT, Storage("fifo", 10), FolderSource(tmp_path))
    assert store.receive(1, None, NOTHING_NEEDED)[1].size == 0  # nothing has come
    put(tmp_path, "b.npz", 2, first=3)
    put(tmp_path, "a.npz", 3)
    put(tmp_path, ".c.npz", 5)
    put(tmp_path, "d.npz.part", 5)
    (tmp_path / "notes.txt").write_text("not samples")
    assert store.receive(2, None, NOTHING_NEEDED)[1].size == 5
    assert stored(store) == [0, 1, 2, 3, 4]
    (tmp_path / "d.npz.part").rename(tmp_path / "d.npz")
    assert store.receive(3, None, NOTHING_NEEDED)[1].size == 5
    assert store.receive(4, None, NOTHING_NEEDED)[1].size == 0
    assert {"a.npz", "b.npz", "d.npz"} < {file.name for file in tmp_path.iterdir()}


def test_names_of_files_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    folder = FolderSource(tmp_path)
    store = SampleStore(FORMAT, Storage("fifo", 10), folder)
    put(tmp_path, "a.npz", 1)
    put(tmp_path, "b.npz", 1)
    store.receive(1, None, NOTHING_NEEDED)
    assert list(folder.taken) == ["a.npz", "b.npz"]
    (tmp_path / "a.npz").unlink()
    store.receive(2, None, NOTHING_NEEDED)
    assert list(folder.taken) == ["b.npz"]
    put(tmp_path, "a.npz", 1)  # a new file of an old name
    assert store.receive(3, None, NOTHING_NEEDED)[1].size == 1
    assert store.seen == 3


@pytest.mark.parametrize("content", [b"", b"PK no zip", b"\x93NUMPY"])
def test_a_damaged_file_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    store = SampleStore(FORMAT, Storage("fifo", 10), FolderSource(tmp_path))
    with pytest.raises(ValueError, match=r"a\.npz cannot be read"):
        store.receive(1, None, NOTHING_NEEDED)


def test_samples_arrive_in_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a folder"):
        FolderSource(tmp_path / "nowhere")
