"""A mistake in a task shows before any training."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from dynamite_fl.errors import InvalidInput, UserCodeError
from dynamite_fl.task.task import Task
from dynamite_fl.task.trial import try_task

TASK = Task(
    name="signs",
    make_model=lambda: nn.Linear(3, 2),
    loss=nn.CrossEntropyLoss(reduction="none"),
    correct=lambda outputs, targets: outputs.argmax(dim=1) == targets,
    train_inputs=torch.ones(4, 3),
    train_targets=torch.tensor([0, 1, 0, 1]),
    test_inputs=torch.ones(1, 3),
    test_targets=torch.tensor([1]),
)


def test_a_task_that_can_be_trained_passes_and_leaves_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    try_task(TASK)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": nn.CrossEntropyLoss()}, r'Task.loss returned the shape \(\).*reduction="none"'),
        ({"loss": lambda *_: 1.0}, "Task.loss returned a float, not a tensor"),
        ({"correct": lambda *_: [True, True]}, "Task.correct returned a list, not a tensor"),
        ({"correct": lambda *_: torch.tensor(0.5)}, r"Task.correct returned the shape \(\)"),
        ({"make_model": lambda: "net"}, "Task.make_model returned a str"),
    ],
)
def test_what_is_not_one_value_per_sample_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        try_task(replace(TASK, **changes))


def fail(*_: object) -> Any:
    raise KeyError("no such label")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"make_model": lambda: nn.Linear(9, 2)},
            r"the model, on inputs of shape",
        ),
        ({"train_inputs": torch.ones(4, 3).double()}, "the model, on inputs"),
        ({"train_targets": torch.tensor([0.5, 1, 0, 1])}, "Task.loss, on the model's outputs,"),
        ({"train_targets": torch.tensor([7, 1, 0, 1])}, "Task.loss, on the model's outputs,"),
        ({"loss": fail}, "KeyError: 'no such label'"),
        ({"make_model": fail}, "Task.make_model failed: KeyError"),
    ],
)
def test_an_exception_says_which_part_of_the_task_raised_it(
    changes: dict[str, Callable[..., Any]], message: str
) -> None:
    with pytest.raises(UserCodeError, match=message) as raised:
        try_task(replace(TASK, **changes))  # type: ignore[arg-type]
    assert raised.value.__cause__ is not None
