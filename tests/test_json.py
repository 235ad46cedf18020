"""Values for JSON."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl._json import json_ready

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_all_values_can_be_written(value: Any) -> None:
    json.dumps(json_ready(value), allow_nan=False)


def test_only_nan_and_infinity_are_replaced() -> None:
    value = {"a": [1, 0.5, True, "x", float("nan")], "b": (float("-inf"),)}
    assert json_ready(value) == {"a": [1, 0.5, True, "x", None], "b": [None]}
