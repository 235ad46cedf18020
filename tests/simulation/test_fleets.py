"""Embedded fleets bind as in the paper's figures; tables and files are checked key by key."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynamite_fl.job.planning import load_planning_job
from dynamite_fl.simulation.clock import round_timing
from dynamite_fl.simulation.devices import Devices, nominal_fleet
from dynamite_fl.simulation.fleets import (
    FLEETS,
    devices_from_table,
    embedded_fleet,
    read_devices_csv,
)

CNN_BYTES = 4 * (75 * 32 + 32 + 800 * 32 + 32 + 2048 * 256 + 256 + 256 * 10 + 10)  # CIFAR-10
ROUNDS = 3000


def fedavg_seconds(devices: Devices, model_bytes: int, rounds: int) -> float:
    """FedAvg's default, tau = 2 and s = 60, timed in every tenth round."""
    seconds = 0.0
    for k in range(0, rounds, 10):
        timing = round_timing(
            devices,
            range(len(devices)),
            seed=0,
            round_index=k,
            start=seconds,
            local_steps=2,
            batch_sizes=60,
            round_bytes=2 * model_bytes,
        )
        seconds += 10 * float(timing.seconds.max())
    return seconds


def fedavg_cost(n: int) -> float:
    """The paper's prices, a = 0.0005 and b = N/10."""
    return ROUNDS * (0.0005 * 2 * 60 * n + n / 10)


def test_vm20_is_the_default_job_for_the_cnn() -> None:
    job = load_planning_job()
    fleet = nominal_fleet(
        embedded_fleet("vm20"), job.fleet.samples, job.fleet.gradient_variance, 2 * CNN_BYTES
    )
    assert fleet.name == job.fleet.name
    assert fleet.samples_per_second.tolist() == job.fleet.samples_per_second.tolist()
    assert fleet.step_overhead.tolist() == job.fleet.step_overhead.tolist()
    assert fleet.comm_seconds == pytest.approx(job.fleet.comm_seconds, abs=0.0005)


@pytest.mark.parametrize("model_bytes", [CNN_BYTES, CNN_BYTES // 2])
def test_vm20_is_bound_as_in_the_figure(model_bytes: int) -> None:
    seconds, cost = fedavg_seconds(embedded_fleet("vm20"), model_bytes, ROUNDS), fedavg_cost(20)
    assert seconds / 5000 < cost / 10_000 <= 1  # cost-dominant
    assert seconds / 2000 > 1 > cost / 20_000  # time-dominant


def test_edge100_is_bound_as_in_the_figure() -> None:
    seconds, cost = fedavg_seconds(embedded_fleet("edge100"), CNN_BYTES, ROUNDS), fedavg_cost(100)
    assert cost / 40_000 > 1 > seconds / 5000  # cost-dominant
    assert seconds / 1000 > 1 > cost / 80_000  # time-dominant


@pytest.mark.parametrize(
    ("name", "size"), [("testbed5", 5), ("vm20", 20), ("edge100", 100), ("phones", 1000)]
)
def test_fleets_have_their_size_and_repeat(name: str, size: int) -> None:
    first, second = embedded_fleet(name, 3), embedded_fleet(name, 3)
    assert len(first) == size
    assert first.samples_per_second.tolist() == second.samples_per_second.tolist()
    assert first.availability.tolist() == second.availability.tolist()


def test_the_seed_decides_about_sampled_fleets_only() -> None:
    changed = {
        name: bool((embedded_fleet(name, 0).bandwidth != embedded_fleet(name, 1).bandwidth).any())
        for name in FLEETS
    }
    assert changed == {"testbed5": False, "vm20": False, "edge100": True, "phones": True}


def test_vm20_has_three_sizes() -> None:
    speed = embedded_fleet("vm20").samples_per_second
    small, medium, large = speed[:6].mean(), speed[6:13].mean(), speed[13:].mean()
    assert medium / small == pytest.approx(2, rel=0.1)
    assert large / small == pytest.approx(4, rel=0.1)


def test_edge100_stays_near_vm20() -> None:
    edge, source = embedded_fleet("edge100"), embedded_fleet("vm20")
    for name in ("samples_per_second", "step_overhead", "latency", "bandwidth"):
        column, origin = getattr(edge, name), getattr(source, name)
        assert origin.min() / 1.5 < column.min() < column.max() < origin.max() * 1.5
        assert np.unique(column).size == 100


def test_phones_have_long_tails_and_are_often_away() -> None:
    phones = embedded_fleet("phones", clients=5000)
    for column in (phones.samples_per_second, phones.bandwidth, phones.latency):
        assert column.mean() > 1.1 * np.median(column)
        assert column.max() > 4 * np.median(column)
    assert phones.availability.max() < 1
    assert phones.dropout.mean() > 0
    few = embedded_fleet("phones", clients=50)
    assert few.bandwidth.tolist() == phones.bandwidth[:50].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "vm2"}, "there is no fleet 'vm2': did you mean 'vm20'?"),
        ({"name": "xyz"}, "use one of testbed5, vm20, edge100, phones"),
        ({"name": "vm20", "clients": 7}, "clients is 7, but vm20 has a fixed number of devices"),
        ({"name": "phones", "clients": 0}, "clients is 0"),
    ],
)
def test_refuses_fleets(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        embedded_fleet(**arguments)


def test_tables(tmp_path: Path) -> None:
    for name, mbps in [("slow.csv", 4), ("fast.csv", 16)]:
        (tmp_path / name).write_text(f"seconds,mbps\n0,{mbps}\n")
    table = {"samples_per_second": [1, 2, 3, 4], "bandwidth": 7e6}
    files = ["slow.csv", "", "fast.csv", "slow.csv"]
    devices = devices_from_table({**table, "trace": files}, tmp_path)
    assert devices.mean_bandwidth.tolist() == [5e5, 7e6, 2e6, 5e5]
    assert len(devices.traces) == 2
    for_all = devices_from_table({**table, "trace": "fast.csv"}, tmp_path)
    assert for_all.mean_bandwidth.tolist() == [2e6] * 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"latancy": 1}, "devices has no key 'latancy': did you mean 'latency'?"),
        ({"traces": []}, "devices has no key 'traces': did you mean 'trace'?"),
        ({"xyz": 1}, "devices has no key 'xyz': use one of samples_per_second, step_overhead"),
        ({"latency": [1]}, "Devices.latency has 1 entries"),
        ({"trace": 1}, "Devices.trace must be the name"),
        ({"trace": [1, 2]}, "Devices.trace must be the name"),
        ({"trace": ["", "", ""]}, "Devices.trace has 3 entries"),
        ({"trace": "absent.csv"}, "absent.csv cannot be read"),
    ],
)
def test_refuses_tables(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        devices_from_table({"samples_per_second": [1, 2], **changes})


def test_refuses_a_table_without_speeds() -> None:
    with pytest.raises(ValueError, match="devices lacks the key 'samples_per_second'"):
        devices_from_table({"latency": 1})


def test_csv_files(tmp_path: Path) -> None:
    (tmp_path / "bus.csv").write_text("0,8\n1,0\n")
    file = tmp_path / "devices.csv"
    file.write_text(
        "\ufeffname, samples_per_second,bandwidth,trace\r\na,90,inf, bus.csv\r\n\r\nb,360,2e6,\r\n",
        encoding="utf-8",
    )
    devices = read_devices_csv(file)
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
        ("samples_per_second\n-1\n", r"d.csv: Devices.samples_per_second\[0\] is -1"),
    ],
)
def test_refuses_csv_files(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "d.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_devices_csv(file)


def test_refuses_what_is_no_text_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a text file"):
        read_devices_csv(tmp_path / "d.csv")
    with pytest.raises(ValueError, match="cannot be read"):
        read_devices_csv(tmp_path / "absent.csv")
