"""The format that samples must have, and what is said of others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_data.sample_format import SampleFormat, sample_format
from dynamite_fl.client.local_data.sources import FolderSource
from dynamite_fl.client.local_data.store import SampleStore
from dynamite_fl.stream.buffer import Storage
from tests.client.local_data.samples import FORMAT, NOTHING_NEEDED, put, stored
from tests.trainings import digits

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a missing array": ({"targets": None}, "needs the arrays inputs and targets"),
    "a wrong shape": (
        {"inputs": np.zeros((4, 3), np.float32)},
        r"inputs have shape \(4, 3\), but the model learns from \(4, 2\)",
    ),
    "too few targets": ({"targets": np.zeros(3, np.int64)}, r"targets have shape \(3,\)"),
    "a wrong type": ({"inputs": np.zeros((4, 2))}, "inputs are torch.float64"),
    "targets of a wrong type": ({"targets": np.zeros(4)}, "targets are torch.float64"),
    "words": ({"targets": np.array(list("abcd"))}, "which are no numbers"),
    "a single number": ({"targets": np.array(1)}, "a single number"),
    "an unknown class": (
        {"targets": np.array([0, 1, 3, 2])},
        "a label is 3, but the model's are 0 to 2",
    ),
    "a negative class": ({"targets": np.array([0, 1, -1, 2])}, "a label is -1"),
    "no finite numbers": ({"inputs": np.full((4, 2), np.nan, np.float32)}, "not all finite"),
    "objects": ({"targets": np.array([None] * 4)}, "cannot be read"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_learned_is_named_and_changes_nothing(what: str, tmp_path: Path) -> None:
    arrays, complaint = WRONG[what]
    store = SampleStore(FORMAT, Storage("fifo", 10), FolderSource(tmp_path))
    put(tmp_path, "a.npz", 2)
    put(tmp_path, "b.npz", 4, **arrays)
    for _ in range(2):  # and again, until somebody takes the file away
        with pytest.raises(ValueError, match=complaint) as error:
            store.receive(1, None, NOTHING_NEEDED)
        assert str(tmp_path / "b.npz") in str(error.value)
        assert stored(store) == [0, 1]
    (tmp_path / "b.npz").unlink()
    put(tmp_path, "c.npz", 1, first=2)
    store.receive(2, None, NOTHING_NEEDED)
    assert stored(store) == [0, 1, 2]


def test_the_format_of_samples_comes_from_the_model() -> None:
    softmax, svm = (sample_format(FlatModel(digits(name), seed=0)) for name in ("softmax", "svm"))
    assert softmax == SampleFormat((1, 8, 8), (), torch.float32, torch.int64, classes=10)
    assert svm.classes is None  # it has one output, and takes labels by their parity
