import gzip
from pathlib import Path

import numpy as np
import pytest

from dynamite_fl.errors import DatasetError
from dynamite_fl.task.datasets.idx import read_idx, read_labelled_images
from tests.task.fixtures import idx_bytes, write

LABELS = np.array([3, 1, 2])


@pytest.mark.parametrize("name", ["labels", "labels.gz"])
def test_bytes_are_read(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"\x00\x00\x08\x01\x00\x00\x00\x03\x03\x01\x02")
    assert read_idx(path, 1).tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "starts with nothing"),
        (b"\x00\x00\x08\x03\x00\x00\x00\x01\x05", "starts with 00000803, not 00000801"),
        (b"\x00\x00\x0d\x01\x00\x00\x00\x01\x05", "starts with 00000d01"),
        (b"\x00\x00\x08\x01\x00\x00", "within its header"),
        (idx_bytes(LABELS)[:-1], "2 bytes of data, not 3"),
        (idx_bytes(LABELS) + b"\x00", "4 bytes of data, not 3"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_damaged_file_is_refused_by_name(
    tmp_path: Path, content: bytes, reason: str, suffix: str
) -> None:
    path = write(tmp_path / f"labels{suffix}", content)
    with pytest.raises(DatasetError, match=f"labels{suffix} is damaged: .*{reason}"):
        read_idx(path, 1)


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(idx_bytes(np.arange(200)))
    flipped = packed[:40] + bytes([packed[40] ^ 255]) + packed[41:]
    for content in (packed[:-20], b"no gzip", b"", flipped):
        path = tmp_path / "labels.gz"
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=r"labels\.gz is damaged"):
            read_idx(path, 1)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="nothing cannot be read: No such file"):
        read_idx(tmp_path / "nothing", 1)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 28, 28), dtype=int), LABELS, "labels is damaged: it has 3 labels for 2"),
        (np.zeros((3, 28, 27), dtype=int), LABELS, "images is damaged: its images are 28x27"),
        (np.zeros((3, 28, 28), dtype=int), LABELS + 1, "labels is damaged: it has a label 4"),
        (np.zeros((0, 28, 28), dtype=int), LABELS[:0], "labels is damaged: it is empty"),
    ],
)
def test_images_and_labels_must_fit(
    tmp_path: Path,
    images: np.typing.NDArray[np.int64],
    labels: np.typing.NDArray[np.int64],
    message: str,
) -> None:
    image_file = write(tmp_path / "images", idx_bytes(images))
    label_file = write(tmp_path / "labels", idx_bytes(labels))
    with pytest.raises(DatasetError, match=message):
        read_labelled_images(image_file, label_file, classes=4)
