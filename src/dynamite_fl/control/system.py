"""How fast is every client? Averages of what was measured, the newest counting most.

One local step on s samples takes overhead + s / speed seconds. The two are told apart by a
regression of measured seconds on batch sizes, beside which a guess of their ratio counts for as
much as it may be trusted: the first one, later that of the last regression that told it well.
Where batch sizes hardly differed, or noise hides the slope, it stands, and only the scale follows
what is measured. By chance a client would else seem to gain nothing from smaller batches, which
would then never be tried, and all wait for the slowest.

A round lasts as long as its slowest client, and of many clients whose times vary one is always
late: rounds take longer than the slowest client's mean. By how much is measured too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamite_fl.records import Fleet, FloatArray, IntArray
from dynamite_fl.reports import RoundReport

MEMORY = 0.9  # what a measurement counts one round later
_DOUBT = 0.5  # standard error of the guess's slope, relative to seconds per sample
_TOLD_WELL = 16.0  # how many times as much as the guess a regression counts that takes its place
_NOISE = 0.1  # of a single measurement, relative to it, before enough of them tell
_LATEST = 2.0  # how many times longer than expected a round counts at most
_LEAST_SLOPE = 1e-9  # relative to seconds per sample, so that speeds stay finite


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted moments of batch sizes and step seconds, columns of shape (n,)."""

    weight: FloatArray
    size: FloatArray
    seconds: FloatArray
    size_size: FloatArray
    size_seconds: FloatArray
    seconds_seconds: FloatArray


@dataclass(frozen=True, eq=False)
class System:
    """What is known of every client of the fleet, columns of shape (n,).

    Attributes:
        samples: D_i as last reported.
        buffer_size: B_i, infinite where a client stores all.
        samples_per_second: p_i, the estimate; the first guess where a client was never timed.
        step_overhead: The same for the overhead.
        comm_seconds: The same for t_ui.
        guessed_overhead: The overhead in samples that take as long, by the guess.
        steps: Moments of timed steps; weight 0 where there are none.
        comm_weight: Weight of timed communication; 0 where there is none.
        lateness: How many times longer rounds take than the slowest client's estimate.
        lateness_weight: Weight of the rounds that showed it.
    """

    samples: FloatArray
    buffer_size: FloatArray
    samples_per_second: FloatArray
    step_overhead: FloatArray
    comm_seconds: FloatArray
    guessed_overhead: FloatArray
    steps: Moments
    comm_weight: FloatArray
    lateness: float
    lateness_weight: float


def first_guess(fleet: Fleet) -> System:
    """The system before anything was timed: the fleet as it is given."""
    nothing = np.zeros(len(fleet))
    overhead, speed = fleet.step_overhead, fleet.samples_per_second
    with np.errstate(invalid="ignore"):
        guessed = np.nan_to_num(overhead * speed, posinf=np.inf)  # 0 if a step takes no time
    unlimited = np.full(len(fleet), np.inf)
    return System(
        samples=fleet.samples,
        buffer_size=unlimited if fleet.buffer_size is None else fleet.buffer_size,
        samples_per_second=speed,
        step_overhead=overhead,
        comm_seconds=fleet.comm_seconds,
        guessed_overhead=guessed,
        steps=Moments(nothing, nothing, nothing, nothing, nothing, nothing),
        comm_weight=nothing,
        lateness=1.0,
        lateness_weight=1.0,
    )


def update(system: System, report: RoundReport, memory: float = MEMORY) -> System:
    """The system after one more round; clients without measurements stay as they were.

    Args:
        system: What was known.
        report: What the round showed.
        memory: What a measurement counts one round later, relative to the newest.

    Example:
        Steps of 0.1 s + 0.01 s a sample, on three batch sizes; the guess was 0.02 s a sample.

        >>> fleet = Fleet(
        ...     samples=[500, 500],
        ...     gradient_variance=1,
        ...     samples_per_second=50,
        ...     comm_seconds=1,
        ... )
        >>> def timed(size, seconds):
        ...     return RoundReport(
        ...         round_index=1,
        ...         clients=np.array([1]),
        ...         local_steps=1,
        ...         batch_sizes=np.array([size]),
        ...         present=np.array([True]),
        ...         samples=np.array([500.0]),
        ...         step_seconds=np.array([seconds]),
        ...         comm_seconds=np.array([0.5]),
        ...         probe=None,
        ...     )
        >>> system = first_guess(fleet)
        >>> for size, seconds in [(20, 0.3), (50, 0.6), (5, 0.15)]:
        ...     system = update(system, timed(size, seconds))
        >>> system.samples_per_second.round(-1), system.step_overhead.round(2)
        (array([ 50., 100.]), array([0. , 0.1]))
    """
    reported = np.isfinite(report.samples) & (report.samples >= 1)
    system = replace(
        system,
        samples=_put(system.samples, report.clients[reported], report.samples[reported]),
    )
    system = _time_round(system, report, memory)  # first: it compares with what was expected
    return _time_comm(_time_steps(system, report, memory), report, memory)


def as_fleet(
    system: System,
    cohort: IntArray,
    gradient_variance: ArrayLike = 1.0,
    name: Sequence[str] | None = None,
) -> Fleet:
    """Some of the clients as the planner takes them, in the cohort's order.

    A client that was never timed takes the median of those that were; before there are any,
    its first guess. All times are longer by the lateness of rounds, if any, so that a plan for
    this fleet takes as long as it says.

    Args:
        system: What is known.
        cohort: Places in the fleet, shape (m,).
        gradient_variance: M_i, one number or one for each client of the whole fleet.
        name: What the clients of the whole fleet are called; numbers if None.
    """
    timed, heard = system.steps.weight > 0, system.comm_weight > 0
    variance = np.broadcast_to(np.asarray(gradient_variance, dtype=np.float64), timed.shape)
    buffer = system.buffer_size[cohort]
    late = max(system.lateness, 1.0)
    return Fleet(
        samples=system.samples[cohort],
        gradient_variance=variance[cohort],
        samples_per_second=filled(system.samples_per_second, timed)[cohort] / late,
        step_overhead=filled(system.step_overhead, timed)[cohort] * late,
        comm_seconds=filled(system.comm_seconds, heard)[cohort] * late,
        buffer_size=None if np.isinf(buffer).any() else buffer,
        name=[f"client {client}" if name is None else name[client] for client in cohort],
    )


def filled(column: FloatArray, seen: NDArray[np.bool_]) -> FloatArray:
    """The column with the median of what was seen where nothing was; as it is if nothing was.

    Example:
        >>> filled(np.array([9.0, 3, 4, 8]), np.array([False, True, True, True]))
        array([4., 3., 4., 8.])
    """
    if seen.all() or not seen.any():
        return column
    return np.where(seen, column, np.median(column[seen]))


def _time_round(system: System, report: RoundReport, memory: float) -> System:
    """How late the round was, by the clients that had been timed before."""
    took = report.local_steps * report.step_seconds + report.comm_seconds
    rows = report.clients
    known = (system.steps.weight[rows] > 0) & (system.comm_weight[rows] > 0) & np.isfinite(took)
    step = system.step_overhead[rows] + report.batch_sizes / system.samples_per_second[rows]
    expected = report.local_steps * step + system.comm_seconds[rows]
    longest = float(np.max(expected, initial=0.0, where=known))
    if longest == 0:
        return system
    ratio = min(float(np.max(took, initial=0.0, where=known)) / longest, _LATEST)
    weight = memory * system.lateness_weight + 1
    late = system.lateness + (ratio - system.lateness) / weight
    return replace(system, lateness=late, lateness_weight=weight)


def _time_steps(system: System, report: RoundReport, memory: float) -> System:
    timed = np.isfinite(report.step_seconds)
    rows = report.clients[timed]
    size, seconds = report.batch_sizes[timed].astype(np.float64), report.step_seconds[timed]
    old = system.steps
    new = _one_more(_take(old, rows), size, seconds, memory)
    overhead, speed, guessed = _overhead_and_speed(new, system.guessed_overhead[rows])
    return replace(
        system,
        steps=Moments(
            **{name: _put(getattr(old, name), rows, column) for name, column in vars(new).items()}
        ),
        step_overhead=_put(system.step_overhead, rows, overhead),
        samples_per_second=_put(system.samples_per_second, rows, speed),
        guessed_overhead=_put(system.guessed_overhead, rows, guessed),
    )


def _time_comm(system: System, report: RoundReport, memory: float) -> System:
    heard = np.isfinite(report.comm_seconds)
    rows, seconds = report.clients[heard], report.comm_seconds[heard]
    weight = memory * system.comm_weight[rows] + 1
    mean = system.comm_seconds[rows]
    mean = mean + (seconds - mean) / weight  # the first measurement replaces the guess
    return replace(
        system,
        comm_seconds=_put(system.comm_seconds, rows, mean),
        comm_weight=_put(system.comm_weight, rows, weight),
    )


def _one_more(old: Moments, size: FloatArray, seconds: FloatArray, memory: float) -> Moments:
    """Moments after one measurement more: means and variances, as in sums much cancels."""
    weight = memory * old.weight + 1
    new = 1 / weight  # the newest one's share
    more, longer = size - old.size, seconds - old.seconds
    return Moments(
        weight=weight,
        size=old.size + new * more,
        seconds=old.seconds + new * longer,
        size_size=(1 - new) * (old.size_size + new * more * more),
        size_seconds=(1 - new) * (old.size_seconds + new * more * longer),
        seconds_seconds=(1 - new) * (old.seconds_seconds + new * longer * longer),
    )


def _overhead_and_speed(
    steps: Moments, guessed: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """By the mean of the regression's slope and the guess's, each counting by its precision.

    The regression's error is that of weighted least squares, from what it leaves unexplained and,
    as few measurements may fit by chance, from one more with the noise that is usual. The third is
    the guess from now on.
    """
    per_sample = steps.seconds / steps.size  # the slope if there were no overhead
    with np.errstate(divide="ignore", invalid="ignore"):
        left = steps.seconds_seconds - np.nan_to_num(steps.size_seconds**2 / steps.size_size)
        off = steps.weight * np.maximum(left, 0.0) + (_NOISE * steps.seconds) ** 2
        noise = off / np.maximum(steps.weight - 1, 1.0)
        trust = steps.weight / noise * (_DOUBT * per_sample) ** 2
        told = trust * steps.size_seconds + steps.seconds / (steps.size + guessed)
        slope = np.nan_to_num(told / (trust * steps.size_size + 1))  # 0 if steps took no time
        slope = np.clip(slope, _LEAST_SLOPE * per_sample, per_sample)
        overhead = np.maximum(steps.seconds - slope * steps.size, 0.0)
        told_well = trust * steps.size_size >= _TOLD_WELL
        return overhead, 1 / slope, np.where(told_well, overhead / slope, guessed)


def _take(moments: Moments, rows: IntArray) -> Moments:
    return Moments(**{name: column[rows] for name, column in vars(moments).items()})


def _put(column: FloatArray, rows: IntArray, values: FloatArray) -> FloatArray:
    changed = column.copy()
    changed[rows] = values
    return changed
