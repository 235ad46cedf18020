"""Embedded fleets bind as in the paper's figures."""

from typing import Any

import numpy as np
import pytest

from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.experiment import load_experiment
from dynamite_fl.job.build_data import number_of_devices
from dynamite_fl.job.devices import build_devices
from dynamite_fl.job.planning import load_planning_job
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.simulation.clock import round_timing
from dynamite_fl.simulation.devices import Devices, nominal_fleet
from dynamite_fl.simulation.fleets import FLEETS, embedded_fleet

CNN_BYTES = 4 * (75 * 32 + 32 + 800 * 32 + 32 + 2048 * 256 + 256 + 256 * 10 + 10)  # CIFAR-10
ROUNDS = 3000


def rounds_seconds(
    devices: Devices, model_bytes: int, rounds: int, local_steps: int = 2, batch_size: int = 60
) -> float:
    """The seconds of rounds of the same plan, by default FedAvg's, timed in every tenth round."""
    seconds = 0.0
    for k in range(0, rounds, 10):
        timing = round_timing(
            devices,
            range(len(devices)),
            seed=0,
            round_index=k,
            start=seconds,
            local_steps=local_steps,
            batch_sizes=batch_size,
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
    seconds, cost = rounds_seconds(embedded_fleet("vm20"), model_bytes, ROUNDS), fedavg_cost(20)
    assert seconds / 5000 < cost / 10_000 <= 1  # cost-dominant
    assert seconds / 2000 > 1 > cost / 20_000  # time-dominant


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


def test_edge100_is_vm20_with_faster_computing_and_a_faster_network() -> None:
    edge, source = embedded_fleet("edge100"), embedded_fleet("vm20")
    factors = {
        "samples_per_second": 2.5,
        "step_overhead": 1 / 2.5,
        "latency": 1 / 5,
        "bandwidth": 5.0,
    }
    for name, factor in factors.items():
        column, origin = getattr(edge, name), factor * getattr(source, name)
        assert origin.min() / 1.5 < column.min() < column.max() < origin.max() * 1.5
        assert np.unique(column).size == 100


# The paper's limits, at its scale.

MODEL_BYTES = {
    ("cnn", "cifar10"): CNN_BYTES,
    ("cnn", "emnist-balanced"): 4
    * (25 * 32 + 32 + 800 * 32 + 32 + 1568 * 256 + 256 + 256 * 47 + 47),
    ("svm", "mnist"): 4 * 784,
}


def seconds_of(job: TrainingJob, local_steps: int, batch_size: int) -> float:
    """The mean seconds of a round of the job's devices, without probes."""
    tables = job.tables
    devices = build_devices(tables["devices"], seed=0)
    model_bytes = MODEL_BYTES[tables["task"]["model"], tables["task"]["dataset"]]
    return rounds_seconds(devices, model_bytes, 1000, local_steps, batch_size) / 1000


def paper_jobs() -> dict[str, TrainingJob]:
    jobs = {}
    for name in NAMES:
        experiment = load_experiment(name)
        for panel in experiment.panels_at("paper"):
            contender = next(iter(experiment.contenders))
            jobs[f"{name} {panel}"] = experiment.job_of("paper", panel, contender, 0)
    return jobs


@pytest.mark.slow
def test_all_rounds_of_every_job_fit_the_paper_s_limits() -> None:
    """One step on one sample a client, with the delays of the slowest: theta, R and K."""
    lengths: dict[str, float] = {}
    for name, job in paper_jobs().items():
        limits, clients = job.limits, number_of_devices(job)
        key = str(job.tables["devices"]) + str(job.tables["task"])
        lengths.setdefault(key, seconds_of(job, 1, 1))
        assert limits.rounds is not None
        assert limits.rounds * lengths[key] < limits.deadline, name
        cost = limits.cost_per_sample * clients + limits.cost_per_round
        assert limits.rounds * cost < limits.budget, name


def test_time_bound_fedavg_ends_early_but_sees_the_burst() -> None:
    """It plays a third to seven eighths of its rounds within each deadline; about half on vm20."""
    shares, lengths = {}, dict[str, float]()
    for name, job in paper_jobs().items():
        if "time" not in name.split()[1]:
            continue
        key = str(job.tables["devices"]) + str(job.tables["task"])
        lengths.setdefault(key, seconds_of(job, 2, 60))
        assert job.limits.rounds is not None
        played = job.limits.deadline / lengths[key]
        shares[name] = played / job.limits.rounds
        burst = job.tables.get("stream", {}).get("preset") == "burst"
        assert (
            not burst
            or played > {"cifar10": 1000, "emnist-balanced": 500}[job.tables["task"]["dataset"]]
        )
    assert all(1 / 3 < share < 7 / 8 for share in shares.values()), shares
    assert shares["online-accuracy time"] == pytest.approx(0.5, abs=0.05)
    assert np.median(list(shares.values())) == pytest.approx(0.6, abs=0.15)


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
