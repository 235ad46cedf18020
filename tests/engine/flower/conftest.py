import pytest

from dynamite_fl.client import stacked


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let simulated clients compute one by one, as real ones do: equal to the bit only then."""
    monkeypatch.setattr(stacked, "_LARGEST", 0)
