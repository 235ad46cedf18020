"""Simulated devices: how fast and how reliably they compute and communicate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl._validate import column, column_length, index_column, name_column
from dynamite_fl.records import Fleet, FloatArray, IntArray
from dynamite_fl.simulation.traces import Trace


@dataclass(frozen=True, init=False, eq=False)
class Devices:
    """The properties of devices: columns with one entry per device.

    The server does not know them: it learns them from the rounds. One local step on ``s`` samples
    takes ``step_overhead + s / samples_per_second`` seconds, and the transfer of ``b`` bytes takes
    ``latency + b / bandwidth`` seconds; both are multiplied by random factors. A single number
    stands for every device, except that ``samples_per_second`` must be a list.

    Attributes:
        samples_per_second: The computation speed; ``math.inf`` for a constant step time.
        step_overhead: The seconds that a local step takes regardless of its batch size.
        latency: The seconds that the communication of a round takes regardless of its size, for
            both ways together.
        bandwidth: The bytes per second, for both ways together; ``math.inf`` for no limit.
        jitter: The sigma of a log-normal factor of mean 1 on the computation time, drawn in every
            round.
        comm_jitter: The sigma of such a factor on latency and bandwidth; on a trace, on the latency
            alone.
        drift: The sigma of the random step that the logarithm of the speed takes in every round.
        availability: The probability that the device takes part in a round.
        dropout: The probability that the device drops out during a round.
        trace: The place in ``traces`` of the trace that replaces the bandwidth; -1 for none.
        trace_start: The place on its trace, in seconds, at which the device is at time 0.
        traces: The measured network traces.
        name: The name of each device; None if devices are known by their numbers.

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
        n = column_length("Devices.samples_per_second", samples_per_second)
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
            **{
                key: column(f"Devices.{key}", value, n, largest=1.0)
                for key, value in chances.items()
            },
            "trace": index_column("Devices.trace", trace, n, among=len(traces)),
            "traces": tuple(traces),
            "name": None if name is None else name_column("Devices.name", name, n),
        }
        for key, value in columns.items():
            object.__setattr__(self, key, value)  # the dataclass is frozen

    def __len__(self) -> int:
        return self.samples_per_second.size

    def label(self, client: int) -> str:
        """Return the name of a device for messages."""
        return f"client {client}" if self.name is None else self.name[client]

    @property
    def mean_bandwidth(self) -> FloatArray:
        """The bytes per second of each device, averaged over its trace if it has one."""
        of_traces = np.array([trace.mean_bandwidth for trace in self.traces] + [math.nan])
        return np.where(self.trace >= 0, of_traces[self.trace], self.bandwidth)


def nominal_fleet(
    devices: Devices,
    samples: ArrayLike,
    gradient_variance: ArrayLike,
    round_bytes: ArrayLike,
    buffer_size: ArrayLike | None = None,
    least_batch: int | None = None,
) -> Fleet:
    """Return the fleet as the server knows it at the start: devices without random factors.

    Args:
        devices: The devices.
        samples: The number of samples of each client.
        gradient_variance: The gradient variance of each client.
        round_bytes: The bytes that a client receives and sends in a round: for a model, twice its
            size.
        buffer_size: The number of samples that each client can store; None for no limit.
        least_batch: The least number of samples in a batch; None if one sample is enough.

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
        least_batch=least_batch,
        name=devices.name,
    )
