"""Rows of files, against the arrays that were written to them."""

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.mapped_file import MappedFile, is_mapped

VALUES = np.arange(60).reshape(10, 3, 2)
ROWS = torch.tensor([7, 0, 7, 9])


def saved(folder: Path, values: Any, mode: Any = "r") -> Any:
    np.save(folder / "values.npy", values)
    return np.load(folder / "values.npy", mmap_mode=mode)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        *((kind, torch.float32) for kind in ("f2", "f4", "f8", ">f4", ">f8")),
        *((kind, torch.int64) for kind in ("i2", "i4", "i8", ">i4", "u2")),
        ("u1", torch.uint8),
    ],
)
def test_rows_are_those_of_the_array(dtype: str, expected: torch.dtype, tmp_path: Path) -> None:
    rows = MappedFile(saved(tmp_path, VALUES.astype(dtype)))
    assert len(rows) == 10
    assert rows.shape == (10, 3, 2)
    found = rows[ROWS]
    assert found.dtype == expected
    assert np.array_equal(found.numpy(), VALUES[ROWS.numpy()])


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[4:],
        lambda array: array[2:9][3:],
        lambda array: array.reshape(20, 3),
        lambda array: array[5:].reshape(-1),
        lambda array: array[3],
        lambda array: array.view(np.int32),
    ],
)
def test_views_are_read_from_their_own_place(view: Any, tmp_path: Path) -> None:
    expected = view(VALUES)
    rows = MappedFile(view(saved(tmp_path, VALUES)))
    everything = torch.arange(len(expected))
    assert np.array_equal(rows[everything].numpy(), expected)


@pytest.mark.parametrize("offset", [0, 1, 128, 4096, 5000])
def test_files_with_a_header_of_any_size(offset: int, tmp_path: Path) -> None:
    values = np.arange(7, dtype=np.int16)
    (tmp_path / "values.bin").write_bytes(b"x" * offset + values.tobytes())
    mapped: Any = np.memmap(tmp_path / "values.bin", np.int16, mode="r", offset=offset)
    assert MappedFile(mapped)[torch.arange(7)].tolist() == values.tolist()
    assert MappedFile(mapped[2:])[torch.arange(5)].tolist() == values[2:].tolist()


def test_a_file_that_was_cut_off_is_named(tmp_path: Path) -> None:
    mapped = saved(tmp_path, VALUES)
    rows = MappedFile(mapped)
    os.truncate(tmp_path / "values.npy", (tmp_path / "values.npy").stat().st_size - 1)
    assert rows[torch.tensor([8])].tolist() == [VALUES[8].tolist()]
    with pytest.raises(InvalidInput, match=r"values\.npy ends before row 9: was it cut off"):
        rows[ROWS]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    mapped = saved(tmp_path, VALUES)
    (tmp_path / "values.npy").unlink()
    with pytest.raises(InvalidInput, match=r"values\.npy cannot be read: .*No such file"):
        MappedFile(mapped)


@pytest.mark.parametrize(
    "view", [lambda array: array[:, 0], lambda array: array[::2], lambda array: array.T]
)
def test_rows_that_are_not_one_after_the_other_are_refused(view: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"rows one after the other.*numpy\.array\(part\)"):
        MappedFile(view(saved(tmp_path, VALUES)))


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  our own


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_reads_the_same_file_by_itself(copied: Any, tmp_path: Path) -> None:
    """It is small, and neither closes the other's file."""
    rows = MappedFile(saved(tmp_path, np.arange(100_000.0).reshape(1000, 100))[500:])
    assert len(pickle.dumps(rows)) < 1000
    expected = rows[ROWS]
    other = copied(rows)
    assert torch.equal(other[ROWS], expected)
    del other
    assert torch.equal(rows[ROWS], expected)
    other = copied(rows)
    del rows
    assert torch.equal(other[ROWS], expected)


def test_what_is_read_from_the_file_and_what_from_memory(tmp_path: Path) -> None:
    """Changes of a map in the mode ``c`` are in memory only, and so is a copy."""
    mapped = saved(tmp_path, VALUES)
    assert is_mapped(mapped)
    assert is_mapped(mapped[3:])
    assert not is_mapped(mapped.astype(np.float32))
    assert not is_mapped(VALUES)
    assert not is_mapped(np.load(tmp_path / "values.npy", mmap_mode="c"))
