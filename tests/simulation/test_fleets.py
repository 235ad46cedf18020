"""Embedded fleets bind as in the paper's figures."""

from typing import Any

import numpy as np
import pytest

from dynamite_fl.job.planning import load_planning_job
from dynamite_fl.simulation.clock import round_timing
from dynamite_fl.simulation.devices import Devices, nominal_fleet
from dynamite_fl.simulation.fleets import FLEETS, embedded_fleet

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
