"""Simulated devices: how fast they compute and communicate, and how far one can count on that."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.columns import column, entries, names, places
from dynamite_fl.engine.traces import Trace
from dynamite_fl.records import Fleet, FloatArray, IntArray


@dataclass(frozen=True, init=False, eq=False)
class Devices:
    """What devices are like, which the server can only learn by and by.

    One local step on ``s`` samples takes ``step_overhead + s / samples_per_second`` seconds, and
    to move ``b`` bytes takes ``latency + b / bandwidth``, each times what chance makes of it.
    A single number stands for every device, but ``samples_per_second`` must be a list.

    Attributes:
        samples_per_second: Computation speed; ``math.inf`` for a constant step time.
        step_overhead: Seconds a local step takes whatever its batch size.
        latency: Seconds a round that communication takes whatever its size, both ways together.
        bandwidth: Bytes a second, for what goes up and down together; ``math.inf`` for no limit.
        jitter: Sigma of a log-normal factor of mean 1 on computation, new in every round.
        comm_jitter: The same on latency and bandwidth; on a trace, on the latency alone.
        drift: Sigma of the step by which log-speed walks at random in every round.
        availability: Probability to be there in a round.
        dropout: Probability to vanish in mid-round after having started.
        trace: The place in ``traces`` of the trace that replaces the bandwidth, -1 for none.
        trace_start: Where on its trace the device is at time 0, in seconds.
        traces: Measured network traces.
        name: What each device is called; None where numbers do.

    Example:
        >>> devices = Devices(samples_per_second=[90, 360], latency=0.1, bandwidth=[5e6, math.inf])
        >>> len(devices), devices.latency.tolist(), devices.label(1)
        (2, [0.1, 0.1], 'client 1')
    """

    samples_per_second: FloatArray
    step_overhead: FloatArray
    latency: FloatArray
    bandwidth: FloatArray
    jitter: FloatArray
    comm_jitter: FloatArray
    drift: FloatArray
    availability: FloatArray
    dropout: FloatArray
    trace: IntArray
    trace_start: FloatArray
    traces: tuple[Trace, ...]
    name: tuple[str, ...] | None

    def __init__(
        self,
        *,
        samples_per_second: ArrayLike,
        step_overhead: ArrayLike = 0.0,
        latency: ArrayLike = 0.0,
        bandwidth: ArrayLike = math.inf,
        jitter: ArrayLike = 0.0,
        comm_jitter: ArrayLike = 0.0,
        drift: ArrayLike = 0.0,
        availability: ArrayLike = 1.0,
        dropout: ArrayLike = 0.0,
        trace: ArrayLike = -1,
        trace_start: ArrayLike = 0.0,
        traces: Sequence[Trace] = (),
        name: Sequence[str] | None = None,
    ) -> None:
        n = entries("Devices.samples_per_second", samples_per_second)
        amounts = {
            "step_overhead": step_overhead,
            "latency": latency,
            "jitter": jitter,
            "comm_jitter": comm_jitter,
            "drift": drift,
            "trace_start": trace_start,
        }
        rates = {"samples_per_second": samples_per_second, "bandwidth": bandwidth}
        chances = {"availability": availability, "dropout": dropout}
        columns = {
            **{key: column(f"Devices.{key}", value, n) for key, value in amounts.items()},
            **{
                key: column(f"Devices.{key}", value, n, positive=True, finite=False)
                for key, value in rates.items()
            },
            **{key: column(f"Devices.{key}", value, n, most=1.0) for key, value in chances.items()},
            "trace": places("Devices.trace", trace, n, among=len(traces)),
            "traces": tuple(traces),
            "name": None if name is None else names("Devices.name", name, n),
        }
        for key, value in columns.items():
            object.__setattr__(self, key, value)  # frozen, so by the back door

    def __len__(self) -> int:
        return self.samples_per_second.size

    def label(self, client: int) -> str:
        """What to call a device when talking of it."""
        return f"client {client}" if self.name is None else self.name[client]

    @property
    def mean_bandwidth(self) -> FloatArray:
        """Bytes a second, on average over the trace where there is one."""
        of_traces = np.array([each.mean_bandwidth for each in self.traces] + [math.nan])
        return np.where(self.trace >= 0, of_traces[self.trace], self.bandwidth)


def nominal_fleet(
    devices: Devices,
    samples: ArrayLike,
    gradient_variance: ArrayLike,
    round_bytes: ArrayLike,
    buffer_size: ArrayLike | None = None,
) -> Fleet:
    """What the server is told at the start: the devices as they are without chance.

    ``round_bytes`` is what a client moves in a round, there and back: for a model, twice its size.

    Example:
        >>> devices = Devices(samples_per_second=[90], latency=0.1, bandwidth=1e6)
        >>> nominal_fleet(devices, [500], 4.0, round_bytes=2e6).comm_seconds.tolist()
        [2.1]
    """
    return Fleet(
        samples=samples,
        gradient_variance=gradient_variance,
        samples_per_second=devices.samples_per_second,
        step_overhead=devices.step_overhead,
        comm_seconds=devices.latency + np.asarray(round_bytes) / devices.mean_bandwidth,
        buffer_size=buffer_size,
        name=devices.name,
    )
