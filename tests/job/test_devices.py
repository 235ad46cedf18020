"""The entry ``devices`` of a training job."""

from pathlib import Path

import numpy as np
import pytest

from dynamite_fl.errors import InvalidInput, JobError
from dynamite_fl.job.devices import build_devices, devices_table, resolve_devices
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.traces import Trace


def test_names_of_fleets_stay_names() -> None:
    assert resolve_devices("vm20", Path()) == "vm20"
    assert resolve_devices({"fleet": "phones", "clients": 7}, Path()) == {
        "fleet": "phones",
        "clients": 7,
    }
    assert len(build_devices({"fleet": "phones", "clients": 7}, seed=1)) == 7


def test_a_csv_file_is_replaced_by_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "link.csv").write_text("seconds,mbps\n0,8\n2,16\n")
    (tmp_path / "devices.csv").write_text("name,samples_per_second,trace\na,100,link.csv\nb,200,\n")
    entry = resolve_devices("devices.csv", tmp_path)
    (tmp_path / "devices.csv").unlink()
    (tmp_path / "link.csv").unlink()
    devices = build_devices(entry, seed=0)
    assert devices.name == ("a", "b")
    assert devices.trace.tolist() == [0, -1]
    assert devices.traces[0].mean_bandwidth == 12e6 / 8
    assert resolve_devices(entry, tmp_path) == entry


def test_one_trace_for_all(tmp_path: Path) -> None:
    (tmp_path / "link.csv").write_text("0,8\n")
    entry = resolve_devices({"samples_per_second": [1, 2], "trace": "link.csv"}, tmp_path)
    assert build_devices(entry, seed=0).trace.tolist() == [0, 0]


def test_devices_can_be_written_as_a_table() -> None:
    devices = Devices(
        samples_per_second=[90, 360],
        bandwidth=[5e6, np.inf],
        trace=[0, -1],
        traces=[Trace(seconds=[3, 5, 6], mbps=[1, 0, 2.5])],
        name=["x", "y"],
    )
    again = build_devices(devices_table(devices), seed=0)
    for name in ("samples_per_second", "bandwidth", "trace", "latency"):
        assert (getattr(again, name) == getattr(devices, name)).all()
    assert (again.traces[0].moved == devices.traces[0].moved).all()
    assert again.name == devices.name


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (3, "devices must be a table, a CSV file or one of"),
        ("nowhere.csv", "nowhere.csv cannot be read"),
        ({"samples_per_second": [1], "trace": 3}, "devices.trace must be the name"),
        ({"samples_per_second": [1], "trace": "nowhere.csv"}, "nowhere.csv cannot be read"),
    ],
)
def test_what_cannot_be_resolved_is_refused(entry: object, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=complaint):
        resolve_devices(entry, tmp_path)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"samples_per_second": [1], "latncy": 3}, "did you mean 'latency'"),
        ({"latency": 3}, "devices lacks the key 'samples_per_second'"),
        ({"fleet": "vm2"}, "did you mean 'vm20'"),
        ({"samples_per_second": [1], "trace": 0, "traces": [3]}, "devices.traces must be a list"),
    ],
)
def test_what_cannot_be_built_is_refused(entry: object, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        build_devices(entry, seed=0)
