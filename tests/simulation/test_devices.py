"""Columns of devices, and the fleet that the server knows."""

import math
from typing import Any

import pytest

from dynamite_fl.simulation.devices import Devices, nominal_fleet
from dynamite_fl.simulation.traces import Trace


def test_columns_are_broadcast_and_read_only() -> None:
    devices = Devices(samples_per_second=[1, 2], jitter=0.1, name=["a", "b"])
    assert devices.jitter.tolist() == [0.1, 0.1]
    assert devices.trace.tolist() == [-1, -1]
    assert devices.bandwidth.tolist() == [math.inf, math.inf]
    assert devices.label(1) == "b"
    with pytest.raises(ValueError, match="read-only"):
        devices.jitter[0] = 1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("samples_per_second", 5, "must be a list"),
        ("samples_per_second", [], "is empty"),
        ("samples_per_second", [1, 0], r"\[1\] is 0: it must be a number above 0"),
        ("samples_per_second", ["fast", 1], "must be a number for each"),
        ("step_overhead", -1, r"\[0\] is -1: it must be a number 0 or more"),
        ("latency", [0, math.inf], r"\[1\] is inf"),
        ("latency", [0, 1, 2], "has 3 entries, but 2 are needed"),
        ("bandwidth", 0, "above 0"),
        ("jitter", math.nan, r"\[0\] is nan"),
        ("comm_jitter", -0.1, r"\[0\] is -0.1"),
        ("drift", math.inf, r"\[0\] is inf"),
        ("availability", [0.5, 1.1], r"\[1\] is 1.1: it must be a number 0 or more, at most 1"),
        ("dropout", -0.5, "at most 1"),
        ("trace", 0, r"\[0\] is 0: it must be a whole number below 0, or -1 for none"),
        ("trace", [-1, 0.5], r"\[1\] is 0.5"),
        ("trace", [-1, -1, -1], "has 3 entries, but 2 are needed"),
        ("trace_start", -1, r"\[0\] is -1"),
        ("name", ["a", "a"], "'a' twice"),
        ("name", "ab", "a list of 2 names"),
    ],
)
def test_refuses(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"Devices\.{field}.*{message}"):
        Devices(**{"samples_per_second": [1, 2], field: value})


def test_nominal_fleet_by_hand() -> None:
    devices = Devices(
        samples_per_second=[100, 200, 300],
        step_overhead=0.01,
        latency=[0.1, 0.2, 0.3],
        bandwidth=[1e6, 4e6, math.inf],
        jitter=0.5,
        drift=0.5,
        trace=[-1, 0, -1],
        traces=[Trace(seconds=[0, 1], mbps=[8, 0])],
        name=["a", "b", "c"],
    )
    fleet = nominal_fleet(devices, [10, 20, 30], 4.0, 2e6)
    assert fleet.samples_per_second.tolist() == [100, 200, 300]
    assert fleet.step_overhead.tolist() == [0.01, 0.01, 0.01]
    assert fleet.comm_seconds == pytest.approx([2.1, 4.2, 0.3])
    assert fleet.name == ("a", "b", "c")
