"""Batches of any structure."""

from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.batch import (
    batch_length,
    map_tensors,
    predict,
    split_batch,
    tensors_in,
    to_device,
)

A, B, C = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("batch", "arguments", "keywords"),
    [
        ((A, C), (A,), {}),
        ([A, C], (A,), {}),
        ((A, B, C), (A, B), {}),
        (((A, B), C), (A, B), {}),
        (([A, B], C), (A, B), {}),
        (({"a": A, "b": B}, C), (), {"a": A, "b": B}),
        ({"a": A, "labels": C}, (), {"a": A}),
        ({"label": C, "a": A, "b": B}, (), {"a": A, "b": B}),
        ((("one text", "another"), C), (("one text", "another"),), {}),
    ],
)
def test_inputs_are_the_arguments_of_the_model(
    batch: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    found = split_batch(batch)
    assert found[0] == arguments
    assert found[1] == keywords
    assert found[2] is C


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (A, "a batch is a Tensor without targets"),
        ((A,), "a batch is a tuple without targets"),
        ([], "a batch is a list without targets"),
        ({"x": A, "y": C}, "a dict with the keys x, y, and none of them is labels"),
    ],
)
def test_a_batch_without_targets_is_refused(batch: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as error:
        split_batch(batch)
    assert "Task.training_step" in str(error.value)


class Sum(nn.Module):
    def forward(self, first: Tensor, second: Tensor, factor: Tensor | None = None) -> Tensor:
        total = first + second
        return total if factor is None else total * factor


@pytest.mark.parametrize(
    ("batch", "outputs"),
    [
        ((A, B, C), [4.0, 6.0]),
        (({"first": A, "second": B, "factor": A}, C), [4.0, 12.0]),
        ({"second": B, "first": A, "labels": C}, [4.0, 6.0]),
    ],
)
def test_a_model_is_called_with_them(batch: Any, outputs: list[float]) -> None:
    found, targets = predict(Sum(), batch)
    assert found.tolist() == outputs
    assert targets is C


nests = st.recursive(
    st.integers(1, 9) | st.text(max_size=2),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(nests)
def test_every_tensor_in_a_nest_is_found_and_changed(nest: Any) -> None:
    """A nest of numbers is first made one of tensors, and then of numbers again."""

    def with_tensors(value: Any) -> Any:
        if isinstance(value, int):
            return torch.full((value,), 7.0)
        if isinstance(value, dict):
            return {key: with_tensors(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(with_tensors(part) for part in value)
        return value

    def numbers(value: Any) -> list[int]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list | tuple):
            return [number for part in value for number in numbers(part)]
        return [value] if isinstance(value, int) else []

    tensors = with_tensors(nest)
    assert map_tensors(len, tensors) == nest
    assert [len(tensor) for tensor in tensors_in(tensors)] == numbers(nest)


class Pair(NamedTuple):
    first: Any
    second: Any


PACKED = pack_sequence([torch.ones(3), torch.ones(2)])


@pytest.mark.parametrize("inputs", [Pair(A, B), PACKED])
def test_a_named_tuple_is_one_input_and_keeps_its_type(inputs: Any) -> None:
    arguments, keywords, targets = split_batch((inputs, C))
    assert arguments == (inputs,)
    assert keywords == {}
    assert targets is C
    copied = map_tensors(torch.clone, inputs)
    assert type(copied) is type(inputs)
    assert torch.equal(copied[0], inputs[0])
    moved, _ = to_device((inputs, C), torch.device("meta"))
    assert type(moved) is type(inputs)
    assert moved[0].device.type == "meta"


def test_the_length_of_a_batch_is_that_of_its_first_tensor() -> None:
    assert batch_length({"epoch": torch.tensor(3), "texts": ["a"], "inputs": (A, C)}) == 2
    with pytest.raises(InvalidInput, match=r"holds no tensor: Task\.collate_fn"):
        batch_length((["a", "b"], "c"))


def test_nothing_is_copied_on_the_cpu() -> None:
    batch = ((A, {"b": B}), C)
    assert to_device(batch, torch.device("cpu")) is batch
    moved = to_device(batch, torch.device("meta"))
    assert [tensor.device.type for tensor in tensors_in(moved)] == ["meta"] * 3
