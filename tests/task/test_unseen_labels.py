"""Classes of the test data that the training data lacks are warned of."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

from dynamite_fl.task.task import Task
from dynamite_fl.task.trial import try_task

LABELS = torch.arange(6).repeat_interleave(20)  # sorted by class, as many files are
INPUTS = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
SORTED = Task(
    model=lambda: nn.Linear(3, 6),
    loss=nn.CrossEntropyLoss(),
    train_data=(INPUTS[:70], LABELS[:70]),
    test_data=(INPUTS[70:], LABELS[70:]),
)
WARNING = r"40 of 50 test samples have a label that no training .* \(4, 5\), .*: .* shuffle it"


class Unstated(Dataset[Any]):
    """A dataset whose labels are known only by loading its samples."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> Any:
        return INPUTS[70 + index], LABELS[70 + index]


def test_a_split_of_sorted_data_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=WARNING):
        try_task(SORTED)


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.MultiMarginLoss()])
def test_so_it_is_with_other_losses_and_kinds_of_data(loss: nn.Module) -> None:
    whole = TensorDataset(INPUTS, LABELS)
    halves = [
        (INPUTS[:40].numpy(), LABELS[:40].numpy()),
        TensorDataset(INPUTS[40:70], LABELS[40:70]),
    ]
    task = replace(SORTED, loss=loss, metrics=["accuracy"], test_data=Subset(whole, range(70, 120)))
    for data in (halves, Subset(whole, range(70))):
        with pytest.warns(UserWarning, match=WARNING):
            try_task(replace(task, train_data=data))


def test_many_labels_are_counted() -> None:
    few = (INPUTS[:20], LABELS[:20])
    with pytest.warns(UserWarning, match=r"50 of 50 .* \(3, 4, 5\)"):
        try_task(replace(SORTED, train_data=few))
    with pytest.warns(UserWarning, match=r"100 of 120 .* \(1, 2, 3 and 2 more\)"):
        try_task(replace(SORTED, train_data=few, test_data=(INPUTS, LABELS)))


shuffled = np.random.default_rng(0).permutation(120)


@pytest.mark.parametrize(
    "changes",
    [
        {"train_data": (INPUTS[shuffled[:70]], LABELS[shuffled[:70]])},  # all classes are in both
        {"test_data": (INPUTS[:30], LABELS[:30])},  # the training may know more classes
        {"test_data": (INPUTS[:2], torch.tensor([0, -100]))},  # a target that the loss ignores
        {"test_data": Unstated()},
        {"loss": nn.MSELoss(), "model": lambda: nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))},
    ],
)
def test_nothing_is_said_of_other_data(changes: dict[str, Any]) -> None:
    """Warnings are errors in tests. Numbers to predict are no labels, and nothing is loaded."""
    try_task(replace(SORTED, **changes))


def test_nothing_is_said_of_one_machine_of_several() -> None:
    """Its own data may lack classes that other machines have."""
    try_task(SORTED, needs_test_data=False)
    try_task(SORTED, needs_train_data=False)
