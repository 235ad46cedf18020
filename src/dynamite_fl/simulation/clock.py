"""The virtual clock: how long each device takes for a round, and whether it finishes."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl._random import random_stream, random_walk
from dynamite_fl.records import BoolArray, FloatArray, IntArray
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.traces import transfer_seconds


@dataclass(frozen=True, eq=False)
class Timing:
    """The times of a round: columns with one entry per client of the cohort, in its order.

    The times of steps, computation and communication are those of a device that finishes the round.
    For any other device, they are the times that it would have taken.

    Attributes:
        present: Whether the device took part and finished.
        completed: The share of the round that the device completed: 1 if present, 0 if absent, and
            between 0 and 1 if it dropped out during the round.
        step_seconds: The seconds of one local step.
        compute_seconds: The seconds of all local steps and of extra computation.
        comm_seconds: The seconds of receiving and sending.
        seconds: The seconds until the device finished or dropped out.
    """

    present: BoolArray
    completed: FloatArray
    step_seconds: FloatArray
    compute_seconds: FloatArray
    comm_seconds: FloatArray
    seconds: FloatArray

    def with_absent(self, absent: BoolArray) -> "Timing":
        """Return the same times with these clients absent."""
        return replace(
            self,
            present=self.present & ~absent,
            completed=np.where(absent, 0.0, self.completed),
            seconds=np.where(absent, 0.0, self.seconds),
        )


def round_timing(
    devices: Devices,
    cohort: ArrayLike,
    *,
    seed: int,
    round_index: int,
    start: float,
    local_steps: ArrayLike,
    batch_sizes: ArrayLike,
    round_bytes: ArrayLike,
    extra_samples: ArrayLike = 0.0,
) -> Timing:
    """Compute the times of a cohort in a round; they depend on the arguments alone.

    The random factors of a device depend on the seed, the round and the device, not on the rest of
    the cohort or on earlier rounds. Computation takes
    ``jitter * exp(-drift) * (local_steps * step + extra_samples / samples_per_second)`` seconds
    and communication ``jitter * (latency + round_bytes / bandwidth)`` seconds. On a trace, the
    transfer begins when the computation ends.

    Args:
        devices: All devices.
        cohort: The places of the devices that take part, (m,).
        seed: The seed, a whole number from 0.
        round_index: The number of the round, k; in round 0, no speed has drifted yet.
        start: The seconds since the training began, which determine the place on a trace.
        local_steps: The number of local steps, tau: one for all or one per client of the cohort.
        batch_sizes: The batch sizes, s_i, likewise.
        round_bytes: The bytes sent up and down together, likewise.
        extra_samples: The samples computed beside the local steps, as by a probe, likewise.

    Example:
        >>> devices = Devices(samples_per_second=[100, 200], step_overhead=0.1, latency=0.5)
        >>> timing = round_timing(
        ...     devices,
        ...     [1, 0],
        ...     seed=0,
        ...     round_index=1,
        ...     start=0.0,
        ...     local_steps=2,
        ...     batch_sizes=[80, 20],
        ...     round_bytes=1e6,
        ... )
        >>> timing.step_seconds.tolist(), timing.seconds.tolist()
        ([0.5, 0.30000000000000004], [1.5, 1.1])
    """
    clients = np.asarray(cohort, dtype=np.int64)
    speed = devices.samples_per_second[clients]
    slowdown = _slowdown(devices, clients, seed, round_index)
    step = slowdown * (devices.step_overhead[clients] + np.asarray(batch_sizes) / speed)
    compute = np.asarray(local_steps) * step + slowdown * np.asarray(extra_samples) / speed
    factor = _jitter(devices.comm_jitter, "communication", clients, seed, round_index)
    transfer = _transfer_seconds(devices, clients, factor, start + compute, round_bytes)
    comm = factor * devices.latency[clients] + transfer
    completed = _completed(devices, clients, seed, round_index)
    return Timing(completed == 1, completed, step, compute, comm, completed * (compute + comm))


def _slowdown(devices: Devices, clients: IntArray, seed: int, round_index: int) -> FloatArray:
    """Return the factors by which computation takes longer than nominal."""
    jitter = _jitter(devices.jitter, "computation", clients, seed, round_index)
    drift = devices.drift[clients]
    if not drift.any():
        return jitter
    walk = random_walk(seed, "drift", round_index, len(devices), clients)
    return np.asarray(jitter * np.exp(-drift * walk))


def _jitter(
    sigmas: FloatArray, purpose: str, clients: IntArray, seed: int, round_index: int
) -> FloatArray:
    """Return log-normal factors of mean 1."""
    sigma = sigmas[clients]
    if not sigma.any():
        return np.ones(clients.size)
    normal = random_stream(seed, purpose, round_index).standard_normal(sigmas.size)[clients]
    return np.asarray(np.exp(sigma * normal - sigma**2 / 2))


def _transfer_seconds(
    devices: Devices, clients: IntArray, factor: FloatArray, begin: FloatArray, size: ArrayLike
) -> FloatArray:
    """Return the seconds in which the bytes are transferred, without the latency."""
    sizes = np.broadcast_to(np.asarray(size, dtype=np.float64), clients.shape)
    seconds = factor * sizes / devices.bandwidth[clients]
    begin = begin + devices.trace_start[clients]
    traces = devices.trace[clients]
    for place in np.unique(traces[traces >= 0]):
        on = traces == place
        seconds[on] = transfer_seconds(devices.traces[place], begin[on], sizes[on])
    return seconds


def _completed(devices: Devices, clients: IntArray, seed: int, round_index: int) -> FloatArray:
    """Return the share of the round that each device completes.

    A device that drops out does so at a moment that is uniform over the round.
    """
    n = len(devices)
    completed = np.ones(clients.size)
    dropout = devices.dropout[clients]
    if dropout.any():
        chance = random_stream(seed, "dropout", round_index).random(n)[clients]
        np.divide(chance, dropout, out=completed, where=chance < dropout)
    availability = devices.availability[clients]
    if (availability < 1).any():
        chance = random_stream(seed, "availability", round_index).random(n)[clients]
        completed[chance >= availability] = 0.0
    return completed
