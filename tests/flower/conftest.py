import pytest

from dynamite_fl.client.executors import stacked


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let simulated clients compute one by one, since only then they equal real ones to the bit."""
    monkeypatch.setattr(stacked, "_LARGEST_MODEL", 0)
