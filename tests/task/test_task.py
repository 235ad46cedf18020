import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.task import Task

TASK = Task(
    name="sum",
    make_model=nn.Identity,
    loss=lambda outputs, targets: (outputs - targets).square().sum(dim=1),
    correct=lambda outputs, targets: (outputs - targets).abs().sum(dim=1) < 0.1,
    train_inputs=torch.rand(200, 3),
    train_targets=torch.rand(200, 1),
    test_inputs=torch.rand(50, 3),
    test_targets=torch.rand(50, 1),
)


def with_value(tensor: torch.Tensor, row: int, value: float) -> torch.Tensor:
    changed = tensor.clone()
    changed[row] = value
    return changed


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("train_targets", torch.rand(150, 1), "train_inputs has 200 samples, .*_targets has 150"),
        ("test_inputs", torch.rand(49, 3), r"Task\.test_inputs has 49 samples, .*_targets has 50"),
        ("train_inputs", torch.rand(0, 3), r"Task\.train_inputs is empty"),
        ("test_targets", torch.rand(0, 1), r"Task\.test_targets is empty"),
        ("train_inputs", with_value(TASK.train_inputs, 7, math.nan), r"train_inputs\[7\] has NaN"),
        ("train_inputs", with_value(TASK.train_inputs, 9, math.inf), r"train_inputs\[9\] has NaN"),
        ("test_targets", with_value(TASK.test_targets, 0, -math.inf), r"test_targets\[0\] has NaN"),
        ("train_inputs", np.zeros((200, 3)), "is a ndarray: it must be a torch.Tensor"),
        ("train_inputs", torch.tensor(1.0), "is one number: it must be a torch.Tensor"),
        ("train_clients", np.zeros(9, dtype=np.int64), "train_clients has 9 entries for 200"),
    ],
)
def test_data_that_can_never_be_right_is_refused_with_one_line(
    field: str, value: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as failure:
        replace(TASK, **{field: value})
    assert "\n" not in str(failure.value)


def test_whole_numbers_halves_and_single_columns_are_accepted() -> None:
    replace(TASK, train_targets=torch.arange(200), train_inputs=torch.rand(200).half())
    replace(TASK, train_inputs=torch.randint(255, (200, 3), dtype=torch.uint8))
    replace(TASK, train_clients=np.arange(200) % 4, train_inputs=torch.rand(200, 3).bfloat16())


def test_a_new_model_depends_on_the_seed_and_leaves_the_generator_alone() -> None:
    task = replace(TASK, make_model=lambda: nn.Linear(3, 1))
    before = torch.random.get_rng_state()
    first, again, other = (task.new_model(seed).state_dict()["weight"] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_task_made_by_hand_has_no_source() -> None:
    assert TASK.source is None
    named = replace(TASK, loss=nn.MSELoss(), correct=torch.eq).with_source("module:function")
    assert pickle.loads(pickle.dumps(named)).source == "module:function"  # noqa: S301  our own
    assert replace(named, penalty=1.0).source is None  # it cannot be made again from its source
