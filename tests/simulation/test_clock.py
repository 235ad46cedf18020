"""The times of a round: numbers worked by hand, and chance that depends on its key alone."""

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dynamite_fl._random import random_walk
from dynamite_fl.simulation.clock import Timing, round_timing
from dynamite_fl.simulation.devices import Devices, nominal_fleet
from dynamite_fl.simulation.fleets import embedded_fleet
from dynamite_fl.simulation.traces import Trace, transfer_seconds
from tests.examples import examples


def timing(devices: Devices, cohort: Any = None, **changes: Any) -> Timing:
    given: dict[str, Any] = {
        "cohort": range(len(devices)) if cohort is None else cohort,
        "seed": 0,
        "round_index": 1,
        "start": 0.0,
        "local_steps": 2,
        "batch_sizes": 60,
        "round_bytes": 2e6,
    }
    return round_timing(devices, **given | changes)


def shaky(n: int) -> Devices:
    """Devices with all that chance can do."""
    return Devices(
        samples_per_second=np.linspace(50, 500, n),
        step_overhead=0.01,
        latency=0.1,
        bandwidth=1e6,
        jitter=0.3,
        comm_jitter=0.5,
        drift=0.1,
        availability=0.8,
        dropout=0.3,
        trace=np.arange(n) % 2 - 1,
        trace_start=np.arange(n) * 0.7,
        traces=[Trace(seconds=[0, 1, 2], mbps=[4, 0, 9])],
    )


def test_times_by_hand() -> None:
    devices = Devices(
        samples_per_second=[100, 50, math.inf],
        step_overhead=[0.0, 0.1, 0.25],
        latency=[0.5, 0.25, 0.0],
        bandwidth=[1e6, 2e6, math.inf],
    )
    found = timing(
        devices,
        [2, 0, 1],
        local_steps=4,
        batch_sizes=[7, 50, 20],
        round_bytes=[1e9, 2e6, 3e6],
        extra_samples=[9, 25, 10],
    )
    assert found.present.tolist() == [True, True, True]
    assert found.completed.tolist() == [1, 1, 1]
    assert found.step_seconds == pytest.approx([0.25, 0.5, 0.5])
    assert found.compute_seconds == pytest.approx([1.0, 2.25, 2.2])
    assert found.comm_seconds == pytest.approx([0.0, 2.5, 1.75])
    assert found.seconds == pytest.approx([1.0, 4.75, 3.95])


def test_a_trace_replaces_the_bandwidth_from_when_computation_ends() -> None:
    trace = Trace(seconds=[0, 2], mbps=[8, 0])  # a megabyte a second, every other 2 s
    devices = Devices(
        samples_per_second=[100, 100, 100],
        latency=0.5,
        bandwidth=4e6,
        trace=[0, -1, 0],
        trace_start=[0, 0, 1],
        traces=[trace],
    )
    found = timing(devices, start=40.0, local_steps=1, batch_sizes=100)
    assert found.compute_seconds.tolist() == [1, 1, 1]
    # From 41 s: 1 MB until 42, a standstill until 44, 1 MB until 45. From 42 s: until 46.
    assert found.comm_seconds == pytest.approx([4.5, 1.0, 4.5])
    later = timing(devices, start=40.5, local_steps=1, batch_sizes=50)
    assert later.comm_seconds == pytest.approx(
        0.5 + np.array([transfer_seconds(trace, 1, 2e6), 0.5, transfer_seconds(trace, 2, 2e6)])
    )


def test_jitter_on_a_trace_is_on_the_latency_alone() -> None:
    devices = Devices(
        samples_per_second=[100],
        latency=0.5,
        comm_jitter=0.4,
        trace=0,
        traces=[Trace(seconds=[0], mbps=[8])],
    )
    comm = timing(devices).comm_seconds
    assert comm == pytest.approx(2 + timing(devices, round_bytes=0).comm_seconds)
    assert comm[0] != 2.5


def test_drift_multiplies_speed_by_the_exponential_of_a_walk() -> None:
    devices = Devices(samples_per_second=[100, 100], step_overhead=0.4, drift=[0.0, 0.2])
    for k in (0, 1, 17):
        walk = random_walk(0, "drift", k, 2)
        found = timing(devices, round_index=k).step_seconds
        assert found == pytest.approx([1.0, math.exp(-0.2 * walk[1])])


@examples(40)
@given(st.integers(0, 2**70), st.integers(0, 5000), st.permutations(range(12)), st.integers(1, 12))
def test_a_device_fares_alike_in_any_cohort(
    seed: int, round_index: int, order: list[int], size: int
) -> None:
    devices, some = shaky(12), order[:size]
    everyone = timing(devices, seed=seed, round_index=round_index)
    cohort = timing(devices, some, seed=seed, round_index=round_index)
    for name, column in vars(cohort).items():
        assert column.tolist() == vars(everyone)[name][some].tolist(), name


def test_more_devices_do_not_change_the_first_ones() -> None:
    few, many = shaky(5), shaky(50)
    assert timing(few).completed.tolist() == timing(many).completed[:5].tolist()
    assert random_walk(1, "drift", 9, 5).tolist() == random_walk(1, "drift", 9, 50)[:5].tolist()


def test_a_steady_companion_changes_nothing() -> None:
    """Columns that are 0 throughout are not drawn, which must not show."""
    mixed = Devices(samples_per_second=[100, 100], jitter=[0.0, 0.3], dropout=[0.0, 0.5])
    both, alone = timing(mixed), timing(mixed, [0])
    assert alone.seconds[0] == both.seconds[0] == 1.2
    assert alone.completed[0] == both.completed[0] == 1


def test_seeds_rounds_and_purposes_differ() -> None:
    devices = Devices(samples_per_second=np.full(50, 60.0), latency=1.0, jitter=1, comm_jitter=1)
    first = timing(devices, round_bytes=0)
    for changes in [{"seed": 1}, {"round_index": 2}]:
        other = timing(devices, round_bytes=0, **changes)
        assert not np.isclose(first.step_seconds, other.step_seconds).any()
    assert not np.isclose(first.step_seconds, first.comm_seconds).any()


@pytest.mark.parametrize("sigma", [0.05, 0.5, 1.0])
def test_jitter_has_mean_one(sigma: float) -> None:
    n = 100_000
    devices = Devices(
        samples_per_second=np.full(n, 60.0), latency=1.0, jitter=sigma, comm_jitter=sigma
    )
    found = timing(devices, round_bytes=0)
    standard_error = math.sqrt(math.expm1(sigma**2) / n)  # of a log-normal's mean
    for factors in (found.step_seconds, found.comm_seconds):
        assert abs(factors.mean() - 1) < 4 * standard_error
        assert np.log(factors).std() == pytest.approx(sigma, rel=4 / math.sqrt(2 * n))


@pytest.mark.parametrize("by_round", [True, False])
def test_availability_and_dropout_come_as_often_as_they_should(by_round: bool) -> None:
    many = 20_000 if not by_round else 4
    devices = Devices(samples_per_second=np.full(many, 60.0), availability=0.7, dropout=0.2)
    rounds = range(5000 if by_round else 1)
    done = np.concatenate([timing(devices, round_index=k).completed for k in rounds])
    away, present = done == 0, done == 1
    for seen, chance in [(away, 0.3), (present, 0.7 * 0.8)]:
        error = math.sqrt(chance * (1 - chance) / done.size)
        assert abs(seen.mean() - chance) < 4 * error
    moments = done[~away & ~present]
    assert abs(moments.mean() - 0.5) < 4 * math.sqrt(1 / 12 / moments.size)


def test_who_is_away_or_vanishes_is_not_present() -> None:
    devices = Devices(
        samples_per_second=np.full(4, 60.0),
        latency=1.0,
        availability=[0, 1, 1, 0],
        dropout=[0, 1, 0, 1],
    )
    found = timing(devices)
    assert found.present.tolist() == [False, False, True, False]
    assert found.completed[[0, 2, 3]].tolist() == [0, 1, 0]
    assert 0 < found.completed[1] < 1
    assert found.seconds == pytest.approx(3 * found.completed)
    assert found.comm_seconds.tolist() == [1, 1, 1, 1]


def test_a_hundred_thousand_devices() -> None:
    devices = embedded_fleet("phones", clients=100_000)
    cohort = np.arange(0, 100_000, 1000)
    found = [timing(devices, cohort, round_index=k) for k in range(1, 11)]
    assert all(each.seconds.shape == (100,) for each in found)


def test_nominal_times_are_the_expected_ones() -> None:
    n = 50_000
    devices = Devices(
        samples_per_second=np.full(n, 100.0),
        latency=0.1,
        bandwidth=1e6,
        jitter=0.2,
        comm_jitter=0.2,
    )
    fleet = nominal_fleet(devices, np.full(n, 500), 1.0, 2e6)
    comm = timing(devices).comm_seconds.mean()
    standard_error = fleet.comm_seconds[0] * math.sqrt(math.expm1(0.04) / n)
    assert abs(comm - fleet.comm_seconds[0]) < 4 * standard_error
