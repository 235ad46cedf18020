import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dynamite_fl.errors import InvalidInput, RunFolderError
from dynamite_fl.records import FloatArray
from dynamite_fl.training.codec import load_record, save_record


@dataclass(frozen=True, eq=False)
class Inner:
    column: FloatArray
    vector: torch.Tensor


@dataclass(frozen=True, eq=False)
class Outer:
    number: float
    word: str | None
    inner: Inner | None
    many: tuple[Inner, ...]
    anything: Any


def sample(inner: Inner | None) -> Outer:
    return Outer(
        number=0.1 + 0.2,
        word="ü",
        inner=inner,
        many=tuple(Inner(np.arange(i + 1.0), torch.ones(i)) for i in range(3)),
        anything=Inner(np.array([math.nan, math.inf]), torch.zeros(1, dtype=torch.float64)),
    )


def test_a_record_comes_back_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "record"
    random = np.random.default_rng(0).normal(size=5)
    before = sample(Inner(random, torch.randn(4)))
    save_record(path, before)
    after = load_record(path, Outer, unknown=Inner)
    assert (after.number, after.word) == (before.number, before.word)
    assert before.inner is not None
    assert after.inner is not None
    assert after.inner.column.tobytes() == random.tobytes()
    assert torch.equal(after.inner.vector, before.inner.vector)
    assert [each.column.size for each in after.many] == [1, 2, 3]
    assert isinstance(after.anything, Inner)
    assert after.anything.vector.dtype == torch.float64
    assert math.isnan(after.anything.column[0])


def test_none_is_read_as_none(tmp_path: Path) -> None:
    save_record(tmp_path / "record", sample(None))
    assert load_record(tmp_path / "record", Outer, unknown=Inner).inner is None


def test_what_no_file_can_hold_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="anything is a dict"):
        save_record(tmp_path / "record", Outer(1.0, None, None, (), {}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-9], lambda _: b"", lambda _: b"x" * 99]
)
def test_damaged_files_are_refused(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "record"
    save_record(path, sample(None))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunFolderError, match="damaged or of another version"):
        load_record(path, Outer, unknown=Inner)


def test_records_of_another_kind_are_refused(tmp_path: Path) -> None:
    save_record(tmp_path / "record", Inner(np.zeros(1), torch.zeros(1)))
    with pytest.raises(RunFolderError, match="damaged or of another version"):
        load_record(tmp_path / "record", Outer)
