from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dynamite_fl.task import fingerprint as fingerprint_module
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.task.task import Task

INPUTS = torch.arange(600, dtype=torch.float32).reshape(200, 3)
LABELS = torch.arange(200) % 2
TASK = Task(
    name="thirds",
    model=lambda: nn.Linear(3, 2),
    loss=nn.CrossEntropyLoss(),
    train_data=(INPUTS, LABELS),
    test_data=(INPUTS[:50], LABELS[:50]),
)

# The same on every machine.
KNOWN = {
    "training data": "54b7c1039c3c59b9",
    "test data": "21e471e99367d63c",
    "model": "64db426a9549faa4",
}


def with_train(inputs: Tensor) -> Task:
    return replace(TASK, train_data=(inputs, LABELS[: len(inputs)]))


def changed(tensor: Tensor) -> Tensor:
    """Return a copy with another value in the middle."""
    copy = tensor.clone()
    copy[len(copy) // 2] += 1
    return copy


def test_it_is_the_same_in_every_process_and_on_every_machine() -> None:
    assert fingerprint(TASK) == KNOWN
    assert fingerprint(with_train(INPUTS.clone())) == fingerprint(TASK)
    by_columns = INPUTS.T.contiguous().T  # the same values, stored in another order
    assert fingerprint(with_train(by_columns)) == fingerprint(TASK)


def test_names_and_first_values_of_weights_do_not_matter() -> None:
    torch.manual_seed(torch.seed() % 2**32)
    same = replace(TASK, name="another", model=lambda: nn.Linear(3, 2))
    same = same.with_source({"use": "a:b"})
    assert fingerprint(same) == fingerprint(TASK)


@pytest.mark.parametrize(
    "change",
    [
        {"train_data": (changed(INPUTS), LABELS)},
        {"train_data": (INPUTS, changed(LABELS))},
        {"test_data": (changed(INPUTS[:50]), LABELS[:50])},
        {"test_data": (INPUTS[:50], changed(LABELS[:50]))},
        {"train_data": (INPUTS.flip(0), LABELS)},
        {"train_data": (INPUTS.double(), LABELS)},
        {"train_data": (INPUTS, LABELS.int())},
        {"train_data": (INPUTS.reshape(200, 1, 3), LABELS)},
        {"train_data": TensorDataset(INPUTS, LABELS)},
        {"train_data": [(INPUTS, LABELS)]},
        {"train_clients": np.arange(200) % 5},
        {"penalty": 0.5},
        {"model": lambda: nn.Linear(3, 5)},
        {"model": lambda: nn.Linear(3, 2).double()},
        {"model": lambda: nn.Sequential(nn.Linear(3, 2))},
        {"model": lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))},
    ],
)
def test_any_change_of_data_or_model_changes_it(change: dict[str, Any]) -> None:
    assert fingerprint(replace(TASK, **change)) != fingerprint(TASK)


def test_of_a_large_tensor_evenly_spaced_rows_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint_module, "_WHOLE_BYTES", 1000)
    monkeypatch.setattr(fingerprint_module, "_SAMPLED_ROWS", 10)
    first = fingerprint(TASK)
    assert fingerprint(with_train(changed(INPUTS))) != first  # row 100 of 0, 20, ...
    between = INPUTS.clone()
    between[101] += 1
    assert fingerprint(with_train(between)) == first
    assert fingerprint(with_train(INPUTS[:199])) != first


def test_types_that_numpy_lacks_are_covered() -> None:
    assert fingerprint(with_train(INPUTS.bfloat16())) != fingerprint(with_train(INPUTS.half()))


class Noisy(TensorDataset):
    """Adds noise to inputs, and counts how many samples were loaded."""

    loaded = 0

    def __getitem__(self, index: int) -> Any:
        self.loaded += 1
        inputs, labels = self.tensors
        return inputs[index] + torch.rand(3), labels[index]


def test_of_a_dataset_evenly_spaced_samples_count_and_generators_are_left_alone() -> None:
    data = Noisy(INPUTS, LABELS)
    task = replace(TASK, train_data=data, metrics=["accuracy"])
    before = torch.random.get_rng_state()
    found = fingerprint(task)["training data"]
    assert data.loaded == 16
    assert torch.equal(torch.random.get_rng_state(), before)

    def again(inputs: Tensor) -> str:
        noisy = Noisy(inputs, LABELS[: len(inputs)])
        return fingerprint(replace(task, train_data=noisy))["training data"]

    assert again(INPUTS.clone()) == found
    assert again(changed(INPUTS)) != found  # row 100 of 0, 12, 25, ...
    assert again(INPUTS[:199]) != found


def test_clients_data_count_each_and_load_no_more_together() -> None:
    parts = [Noisy(INPUTS[k : k + 20], LABELS[k : k + 20]) for k in range(0, 200, 20)]
    task = replace(TASK, train_data=[*parts, (INPUTS, LABELS)], metrics=["accuracy"])
    found = fingerprint(task)
    assert sum(part.loaded for part in parts) == 10
    swapped = replace(task, train_data=[*parts[::-1], (INPUTS, LABELS)])
    assert fingerprint(swapped) != found
    last = replace(task, train_data=[*parts, (changed(INPUTS), LABELS)])
    assert fingerprint(last) != found
    assert fingerprint(replace(task, train_data=[*parts])) != found


def test_a_file_has_the_fingerprint_of_its_content(tmp_path: Path) -> None:
    np.save(tmp_path / "inputs.npy", INPUTS.numpy())
    mapped = np.load(tmp_path / "inputs.npy", mmap_mode="r")
    assert fingerprint(replace(TASK, train_data=(mapped, LABELS))) == fingerprint(TASK)


def test_a_single_number_in_a_batch_is_covered() -> None:
    def with_length(length: int) -> dict[str, str]:
        def collate(samples: list[Any]) -> Any:
            inputs = torch.stack([x for x, _ in samples])
            return {"x": inputs, "length": torch.tensor(length), "labels": inputs[:, 0]}

        data = TensorDataset(INPUTS, LABELS)
        return fingerprint(replace(TASK, train_data=data, collate_fn=collate))

    assert with_length(3) == with_length(3)
    assert with_length(3) != with_length(4)


def test_parts_that_are_missing_are_left_out() -> None:
    assert fingerprint(replace(TASK, train_data=None)).keys() == {"model", "test data"}
    assert fingerprint(replace(TASK, test_data=None)).keys() == {"model", "training data"}


@pytest.mark.parametrize("large", [False, True])
def test_values_of_frozen_weights_matter(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run must not go on with another model beneath its adapters."""
    if large:
        monkeypatch.setattr(fingerprint_module, "_WHOLE_BYTES", 4)

    def adapted(shift: float) -> Task:
        def model() -> nn.Module:
            base = nn.Linear(3, 3).requires_grad_(False)
            with torch.no_grad():
                base.weight.add_(shift)
            return nn.Sequential(base, nn.Linear(3, 2))

        return replace(TASK, model=model)

    assert fingerprint(adapted(0.0))["model"] == fingerprint(adapted(0.0))["model"]
    assert fingerprint(adapted(0.0))["model"] != fingerprint(adapted(1.0))["model"]
