from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamite_fl.task import fingerprint as fingerprint_module
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.task.task import Task

INPUTS = torch.arange(600, dtype=torch.float32).reshape(200, 3)
TASK = Task(
    name="thirds",
    make_model=lambda: nn.Linear(3, 2),
    loss=nn.CrossEntropyLoss(reduction="none"),
    correct=lambda outputs, targets: outputs.argmax(dim=1) == targets,
    train_inputs=INPUTS,
    train_targets=torch.arange(200) % 2,
    test_inputs=INPUTS[:50],
    test_targets=torch.arange(50) % 2,
)

# The same on every machine.
KNOWN = {
    "training data": "0ab3530e22b6ef91",
    "test data": "feb86b4cde68b7b1",
    "model": "64db426a9549faa4",
}


def changed(tensor: Tensor) -> Tensor:
    """Return a copy with another value in the middle."""
    copy = tensor.clone()
    copy[len(copy) // 2] += 1
    return copy


def test_it_is_the_same_in_every_process_and_on_every_machine() -> None:
    assert fingerprint(TASK) == KNOWN
    assert fingerprint(replace(TASK, train_inputs=INPUTS.clone())) == fingerprint(TASK)
    by_columns = INPUTS.T.contiguous().T  # the same values, stored in another order
    assert fingerprint(replace(TASK, train_inputs=by_columns)) == fingerprint(TASK)


def test_names_and_first_values_of_weights_do_not_matter() -> None:
    torch.manual_seed(torch.seed() % 2**32)
    same = replace(TASK, name="another", make_model=lambda: nn.Linear(3, 2)).with_source("a:b")
    assert fingerprint(same) == fingerprint(TASK)


@pytest.mark.parametrize(
    "change",
    [
        lambda task: replace(task, train_inputs=changed(INPUTS)),
        lambda task: replace(task, train_targets=changed(task.train_targets)),
        lambda task: replace(task, test_inputs=changed(task.test_inputs)),
        lambda task: replace(task, test_targets=changed(task.test_targets)),
        lambda task: replace(task, train_inputs=INPUTS.flip(0)),
        lambda task: replace(task, train_inputs=INPUTS.double()),
        lambda task: replace(task, train_targets=task.train_targets.int()),
        lambda task: replace(task, train_inputs=INPUTS.reshape(200, 1, 3)),
        lambda task: replace(task, train_clients=np.arange(200) % 5),
        lambda task: replace(task, penalty=0.5),
        lambda task: replace(task, make_model=lambda: nn.Linear(3, 5)),
        lambda task: replace(task, make_model=lambda: nn.Sequential(nn.Linear(3, 2))),
    ],
)
def test_any_change_of_data_or_model_changes_it(change: Callable[[Task], Task]) -> None:
    assert fingerprint(change(TASK)) != fingerprint(TASK)


def test_of_a_large_tensor_evenly_spaced_rows_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint_module, "_WHOLE_BYTES", 1000)
    monkeypatch.setattr(fingerprint_module, "_SAMPLED_ROWS", 10)
    first = fingerprint(TASK)
    assert fingerprint(replace(TASK, train_inputs=changed(INPUTS))) != first  # row 100 of 0, 20, ..
    between = INPUTS.clone()
    between[101] += 1
    assert fingerprint(replace(TASK, train_inputs=between)) == first
    shorter = replace(TASK, train_inputs=INPUTS[:199], train_targets=TASK.train_targets[:199])
    assert fingerprint(shorter) != first


def test_types_that_numpy_lacks_are_covered() -> None:
    task = replace(TASK, train_inputs=INPUTS.bfloat16())
    assert fingerprint(task) != fingerprint(replace(task, train_inputs=INPUTS.half()))
