"""What holds for every task: workers and interruptions change no bit."""

import random
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import dynamite_fl as fl
from dynamite_fl.task.task import Task
from dynamite_fl.training.round_record import RoundRecord


def check_workers_and_resumes(
    train: Callable[..., fl.Result], task: Task, folder: Path, rounds: int
) -> fl.Result:
    """Check that 2 and 3 workers, and resumes after every round, give the same result.

    Args:
        train: Trains for so many rounds; it takes the arguments of ``fl.train``.
        task: The task.
        folder: An empty folder.
        rounds: The number of rounds.

    Returns:
        The result with one worker.
    """
    whole = train(folder=folder / "whole")
    assert len(whole.history) == rounds
    for workers in (2, 3):
        assert_same(train(workers=workers), whole)

    def press_ctrl_c(record: RoundRecord) -> None:
        if record.round < rounds:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(folder=folder / "resumed", on_round=press_ctrl_c)
    for _ in range(rounds - 2):
        use_random_numbers()
        with pytest.raises(KeyboardInterrupt):
            fl.resume(folder / "resumed", task=task, on_round=press_ctrl_c)
    use_random_numbers()
    assert_same(fl.resume(folder / "resumed", task=task), whole)
    return whole


def assert_same(one: fl.Result, other: fl.Result) -> None:
    """Check that two trainings have the same history and the same model, to the bit."""
    assert one.history == other.history
    assert_same_weights(one.state_dict, other.state_dict)


def assert_same_weights(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Check that two models are the same, to the bit."""
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert torch.equal(values, other[name]), name


def use_random_numbers() -> None:
    """Change the state of every shared generator, as another process would have another state."""
    torch.rand(1)
    np.random.random()  # noqa: NPY002
    random.random()  # noqa: S311
