"""Random numbers inside models and datasets; whole trainings are in tests/simulation."""

import random
import traceback
from typing import Any

import numpy as np
import pytest
import torch

from dynamite_fl._random import client_stream, random_stream
from dynamite_fl.task.keyed_random import keyed_random, seed_torch

CPU = torch.device("cpu")


def numbers() -> tuple[float, float, float]:
    return float(torch.rand(())), float(np.random.random()), random.random()  # noqa: NPY002, S311


def states() -> tuple[Any, ...]:
    of_numpy: Any = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), of_numpy[1].tolist(), of_numpy[2:], random.getstate()


def drawn(*key: int) -> tuple[float, float, float]:
    with keyed_random(client_stream(*key), CPU):
        return numbers()


def test_a_key_decides_what_all_three_generators_draw() -> None:
    first = drawn(0, 3, 1, 3)
    numbers()  # others draw in between
    assert drawn(0, 3, 1, 3) == first


@pytest.mark.parametrize("key", [(1, 3, 1, 3), (0, 4, 1, 3), (0, 3, 2, 3), (0, 3, 1, 2)])
def test_each_part_of_the_key_matters_to_all_three(key: tuple[int, ...]) -> None:
    pairs = zip(drawn(*key), drawn(0, 3, 1, 3), strict=True)
    assert all(ours != theirs for ours, theirs in pairs)


def test_outside_generators_are_as_before() -> None:
    numbers()
    before = states()
    with keyed_random(random_stream(0, "test"), CPU):
        numbers()
        assert states() != before
    assert states() == before


def test_outside_generators_are_as_before_if_the_code_within_fails() -> None:
    def fail() -> None:
        with keyed_random(random_stream(0, "test"), CPU):
            numbers()
            raise ZeroDivisionError

    before = states()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert states() == before


def test_contexts_can_be_nested() -> None:
    with keyed_random(random_stream(0, "outer"), CPU):
        numbers()
        expected = numbers()
    with keyed_random(random_stream(0, "outer"), CPU):
        numbers()
        with keyed_random(random_stream(0, "inner"), CPU):
            numbers()
        assert numbers() == expected


def test_seeding_formats_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.manual_seed`` does without a GPU, which takes longer than the seeding."""
    formatted: list[str] = []

    def format_stack(*_: object) -> list[str]:
        formatted.append("a traceback")
        return []

    monkeypatch.setattr(traceback, "format_stack", format_stack)
    drawn(0, 3, 1, 3)
    assert not formatted


def test_torch_is_seeded_as_by_its_own_function() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = torch.rand(3)
        seed_torch(7, CPU)
        assert torch.equal(torch.rand(3), expected)
