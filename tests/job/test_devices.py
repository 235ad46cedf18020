"""The entry ``devices`` of a training job."""

import math
from pathlib import Path
from typing import Any

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


def from_entry(entry: object, folder: Path) -> Devices:
    return build_devices(resolve_devices(entry, folder), seed=0)


def test_tables(tmp_path: Path) -> None:
    for name, mbps in [("slow.csv", 4), ("fast.csv", 16)]:
        (tmp_path / name).write_text(f"seconds,mbps\n0,{mbps}\n")
    table = {"samples_per_second": [1, 2, 3, 4], "bandwidth": 7e6}
    files = ["slow.csv", "", "fast.csv", "slow.csv"]
    devices = from_entry({**table, "trace": files}, tmp_path)
    assert devices.mean_bandwidth.tolist() == [5e5, 7e6, 2e6, 5e5]
    assert len(devices.traces) == 2
    for_all = from_entry({**table, "trace": "fast.csv"}, tmp_path)
    assert for_all.mean_bandwidth.tolist() == [2e6] * 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"latancy": 1}, "devices has no key 'latancy': did you mean 'latency'?"),
        ({"xyz": 1}, "devices has no key 'xyz': use one of samples_per_second, step_overhead"),
        ({"latency": [1]}, "devices.latency has 1 entries"),
        ({"trace": 1}, "devices.trace must be the name"),
        ({"trace": [1, 2]}, "devices.trace must be the name"),
        ({"trace": ["", "", ""]}, "devices.trace has 3 entries"),
        ({"trace": "absent.csv"}, "absent.csv cannot be read"),
    ],
)
def test_refuses_tables(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        from_entry({"samples_per_second": [1, 2], **changes}, Path())


def test_refuses_a_table_without_speeds() -> None:
    with pytest.raises(ValueError, match="devices lacks the key 'samples_per_second'"):
        from_entry({"latency": 1}, Path())


def test_csv_files(tmp_path: Path) -> None:
    (tmp_path / "bus.csv").write_text("0,8\n1,0\n")
    file = tmp_path / "devices.csv"
    file.write_text(
        "\ufeffname, samples_per_second,bandwidth,trace\r\na,90,inf, bus.csv\r\n\r\nb,360,2e6,\r\n",
        encoding="utf-8",
    )
    devices = from_entry(file.name, tmp_path)
    assert devices.name == ("a", "b")
    assert devices.samples_per_second.tolist() == [90, 360]
    assert devices.bandwidth.tolist() == [math.inf, 2e6]
    assert devices.mean_bandwidth.tolist() == [5e5, 2e6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "samples_per_sec\n1\n",
            "d.csv has no key 'samples_per_sec': did you mean 'samples_per_second'",
        ),
        ("latency\n1\n", "d.csv lacks the key 'samples_per_second'"),
        ("", "d.csv lacks the key 'samples_per_second'"),
        ("samples_per_second\n", "d.csv has no client"),
        ("samples_per_second,samples_per_second\n1,1\n", "two columns of one name"),
        ("samples_per_second,latency\n1,0\n1\n", "line 3 has 1 of 2 columns"),
        ("samples_per_second\n1\nfast\n", "line 3: samples_per_second is 'fast'"),
        ("samples_per_second\n-1\n", r"devices.samples_per_second\[0\] is -1"),
    ],
)
def test_refuses_csv_files(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "d.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        from_entry(file.name, tmp_path)


def test_refuses_what_is_no_text_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a text file"):
        from_entry("d.csv", tmp_path)
    with pytest.raises(ValueError, match="cannot be read"):
        from_entry("absent.csv", tmp_path)
