"""The virtual clock: how long each device takes for a round, and whether it gets through."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.chance import dice, random_walk
from dynamite_fl.engine.devices import Devices
from dynamite_fl.engine.traces import transfer_seconds
from dynamite_fl.plan.problem import BoolArray
from dynamite_fl.records import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Timing:
    """A round on the clock: columns over the cohort, in its order.

    Times of steps, computation and communication are those of a device that gets through; they
    are given for the others too, as what would have been.

    Attributes:
        present: Whether it was there and got through.
        done: How much of its round it got through: 1 if present, 0 if away, between if it
            vanished on the way.
        step_seconds: Seconds of one local step.
        compute_seconds: Seconds of all local steps and of what else was computed.
        comm_seconds: Seconds to receive and send.
        seconds: How long it kept the server waiting, until it was done or vanished.
    """

    present: BoolArray
    done: FloatArray
    step_seconds: FloatArray
    compute_seconds: FloatArray
    comm_seconds: FloatArray
    seconds: FloatArray

    def only(self, these: BoolArray) -> "Timing":
        """The same with all others of the cohort away."""
        return replace(
            self,
            present=self.present & these,
            done=np.where(these, self.done, 0.0),
            seconds=np.where(these, self.seconds, 0.0),
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
    """The times of a cohort in a round, a function of its arguments alone.

    What chance does to a device depends on the seed, the round and the device, not on the rest
    of the cohort or on earlier rounds. Computation and communication take
    ``jitter * exp(-drift) * (local_steps * step + extra_samples / samples_per_second)`` and
    ``jitter * (latency + round_bytes / bandwidth)`` seconds; on a trace, the bytes move from
    when the computation ends.

    Args:
        devices: All devices.
        cohort: Which of them take part, as places among the devices, (m,).
        seed: Any whole number from 0.
        round_index: k, any whole number from 0; before any drift at 0.
        start: Seconds since the training began, to find the place on a trace.
        local_steps: tau, one for all or one for each of the cohort.
        batch_sizes: s_i, likewise.
        round_bytes: Bytes moved up and down together, likewise.
        extra_samples: Samples computed beside the local steps, as by a probe, likewise.

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
    pace = _pace(devices, clients, seed, round_index)
    step = pace * (devices.step_overhead[clients] + np.asarray(batch_sizes) / speed)
    compute = np.asarray(local_steps) * step + pace * np.asarray(extra_samples) / speed
    factor = _jitter(devices.comm_jitter, "communication", clients, seed, round_index)
    moving = _moving_seconds(devices, clients, factor, start + compute, round_bytes)
    comm = factor * devices.latency[clients] + moving
    done = _done(devices, clients, seed, round_index)
    return Timing(done == 1, done, step, compute, comm, done * (compute + comm))


def _pace(devices: Devices, clients: IntArray, seed: int, round_index: int) -> FloatArray:
    """By what computation takes longer than it should."""
    jitter = _jitter(devices.jitter, "computation", clients, seed, round_index)
    drift = devices.drift[clients]
    if not drift.any():
        return jitter
    walk = random_walk(seed, "drift", round_index, len(devices), clients)
    return np.asarray(jitter * np.exp(-drift * walk))


def _jitter(
    sigmas: FloatArray, purpose: str, clients: IntArray, seed: int, round_index: int
) -> FloatArray:
    """Log-normal factors of mean 1."""
    sigma = sigmas[clients]
    if not sigma.any():
        return np.ones(clients.size)
    normal = dice(seed, purpose, round_index).standard_normal(sigmas.size)[clients]
    return np.asarray(np.exp(sigma * normal - sigma**2 / 2))


def _moving_seconds(
    devices: Devices, clients: IntArray, factor: FloatArray, begin: FloatArray, size: ArrayLike
) -> FloatArray:
    sizes = np.broadcast_to(np.asarray(size, dtype=np.float64), clients.shape)
    seconds = factor * sizes / devices.bandwidth[clients]
    begin = begin + devices.trace_start[clients]
    traces = devices.trace[clients]
    for place in np.unique(traces[traces >= 0]):
        on = traces == place
        seconds[on] = transfer_seconds(devices.traces[place], begin[on], sizes[on])
    return seconds


def _done(devices: Devices, clients: IntArray, seed: int, round_index: int) -> FloatArray:
    """How much of the round each gets through; one that drops out does so at any moment alike."""
    n = len(devices)
    done = np.ones(clients.size)
    dropout = devices.dropout[clients]
    if dropout.any():
        chance = dice(seed, "dropout", round_index).random(n)[clients]
        np.divide(chance, dropout, out=done, where=chance < dropout)
    availability = devices.availability[clients]
    if (availability < 1).any():
        chance = dice(seed, "availability", round_index).random(n)[clients]
        done[chance >= availability] = 0.0
    return done
