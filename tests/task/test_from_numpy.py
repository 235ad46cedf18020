"""Types of NumPy's numbers as tensors."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dynamite_fl.task.from_numpy import from_numpy

FLOAT, WHOLE = torch.float32, torch.int64


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        *((kind, FLOAT) for kind in ("f2", "f4", "f8", ">f4", ">f8", np.longdouble)),
        *((kind, WHOLE) for kind in ("i2", "i4", "i8", ">i4", "u2", "u4")),
        ("u1", torch.uint8),
        ("i1", torch.int8),
        ("?", torch.bool),
        ("c8", torch.complex64),
    ],
)
def test_types(dtype: Any, expected: torch.dtype) -> None:
    tensor = from_numpy(np.array([[0, 1], [1, 0]]).astype(dtype))
    assert tensor.dtype == expected
    assert tensor.numpy().real.tolist() == [[0, 1], [1, 0]]


@given(arrays(np.dtype(">i4"), (3, 2), elements=st.integers(-(2**31), 2**31 - 1)))
def test_the_order_of_bytes_does_not_matter(array: Any) -> None:
    assert from_numpy(array).tolist() == array.tolist()


def test_floating_point_numbers_have_the_default_type() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert from_numpy(np.zeros(2, np.float32)).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_memory_is_shared_where_it_can_be() -> None:
    array = np.zeros(3, np.float32)
    assert from_numpy(array).data_ptr() == array.__array_interface__["data"][0]


def test_views_and_arrays_that_cannot_be_written_to() -> None:
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    array.setflags(write=False)  # torch would warn
    assert from_numpy(array).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert from_numpy(array[::-1, ::2]).tolist() == [[3, 5], [0, 2]]


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.array(["1970"], "M8[s]")])
def test_what_is_no_number_is_refused(array: Any) -> None:
    with pytest.raises(TypeError):
        from_numpy(array)
