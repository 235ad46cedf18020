"""What is sent, as bytes."""

import math

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from dynamite_fl.engine.flower.gate import MOST_BYTES
from dynamite_fl.engine.flower.parcel import Malformed, unwrapped, wrapped


def test_a_large_model_goes_in_parts_that_the_server_takes() -> None:
    weights = np.random.default_rng(0).standard_normal(3_000_000).astype(np.float32)
    content = wrapped({"weights": weights, "none": weights[:0]}, {"k": 1, "x": math.nan})
    sizes = [len(part.deflate()) for part in get_all_nested_objects(content).values()]
    assert len(content) == 3
    assert sum(sizes) > weights.nbytes
    assert max(sizes) < MOST_BYTES / 2
    arrays, values = unwrapped(content)
    np.testing.assert_array_equal(arrays["weights"], weights)
    assert arrays["none"].shape == (0,)
    assert values["k"] == 1
    assert math.isnan(values["x"])


def test_a_small_one_in_one() -> None:
    """The fewest requests: the message, what it holds, and the bytes."""
    content = wrapped({"a": np.zeros(5, np.float32), "b": np.ones(3, np.float32)}, {"k": 1})
    assert len(get_all_nested_objects(content)) == 2


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 8, b"\xff" * 99, (2**62).to_bytes(8, "little") + b"{}", b"\0" * 8]
)
def test_garbage(data: bytes) -> None:
    with pytest.raises(Malformed, match="cannot be read"):
        unwrapped(RecordDict({"part-000000": ConfigRecord({"bytes": data})}))
