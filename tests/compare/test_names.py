"""The names of contenders, and what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.compare.names import ContenderName, method_of, rates_in
from dynamite_fl.compare.rates import rate_at
from dynamite_fl.errors import JobError

PLACES = st.integers(-24, 12)


@given(rates=st.lists(PLACES.map(rate_at), max_size=2), method=st.sampled_from(["a", "m:B", "x-y"]))
def test_a_name_says_what_it_is_of(rates: list[float], method: str) -> None:
    name = ContenderName(method, *rates)
    assert ContenderName.parse(str(name)) == name
    assert method_of(str(name)) == method
    assert rates_in(str(name)) == "x".join(f"{rate:g}" for rate in rates)


@pytest.mark.parametrize(
    "text", ["fedavg@", "fedavg@x", "fedavg@0", "fedavg@-1", "a@1x", "a@1x2x3"]
)
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(JobError, match="has no learning rate after the @"):
        ContenderName.parse(text)
