"""Estimates of how fast clients are, from measured seconds. Recent rounds count most.

One local step on s samples takes overhead + s / speed seconds. A regression of the measured seconds
on the batch sizes separates the two. The regression is unreliable if batch sizes hardly differ or
if noise hides the slope. Suppose that by chance smaller batches seem to save a client no time. Then
they are never tried, nothing new is learned, and every round waits for that client. Therefore the
slope is the mean of the regression's slope and a guess, weighted by their precision. The guess is
the ratio of overhead to seconds per sample that the fleet has at first. A precise regression
replaces it.

A round lasts as long as its slowest client. If the times of many clients vary, one of them is
always late, so rounds take longer than the mean time of the slowest client. The factor by which
they do is estimated too.

The training loop keeps these estimates and passes the estimated fleet to the controller.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynamite_fl.records import BoolArray, Fleet, FloatArray, IntArray
from dynamite_fl.reports import RoundReport

_MEMORY = 0.9  # the factor by which the weight of a measurement falls with every later one
_GUESS_ERROR = 0.5  # the standard error of the guessed slope, relative to seconds per sample
_REPLACES_GUESS = 16.0  # the precision of a regression that replaces the guess, relative to it
_USUAL_NOISE = 0.1  # the relative noise of a measurement, assumed while there are few
_MOST_LATENESS = 2.0  # the largest lateness of a single round that counts
_LEAST_SLOPE = 1e-9  # relative to seconds per sample, so that speeds stay finite


@dataclass(frozen=True, eq=False)
class StepMoments:
    """Weighted means and (co)variances of batch sizes and step seconds, columns of shape (n,)."""

    weight: FloatArray
    size: FloatArray
    seconds: FloatArray
    size_size: FloatArray
    size_seconds: FloatArray
    seconds_seconds: FloatArray


@dataclass(frozen=True, eq=False)
class SpeedEstimates:
    """The estimated speed of every client, columns of shape (n,).

    Attributes:
        samples_per_second: p_i. Until a client is timed, this and the next two columns hold the
            values of the fleet at first.
        step_overhead: The overhead of a local step in seconds.
        comm_seconds: t_ui.
        guessed_overhead: The guessed overhead, as the number of samples that take as long.
        steps: The moments of timed steps. Their weight is 0 if there are none.
        comm_weight: The weight of timed communication. It is 0 if there is none.
        lateness: The duration of rounds, relative to the estimate for the slowest client.
        lateness_weight: The weight of the rounds that the lateness is estimated from.
    """

    samples_per_second: FloatArray
    step_overhead: FloatArray
    comm_seconds: FloatArray
    guessed_overhead: FloatArray
    steps: StepMoments
    comm_weight: FloatArray
    lateness: float
    lateness_weight: float


def first_estimates(fleet: Fleet) -> SpeedEstimates:
    """Return the estimates before any client is timed: the speeds of the fleet itself."""
    zeros = np.zeros(len(fleet))
    overhead, speed = fleet.step_overhead, fleet.samples_per_second
    with np.errstate(invalid="ignore"):
        guessed = np.nan_to_num(overhead * speed, posinf=np.inf)  # 0 if a step takes no time
    return SpeedEstimates(
        samples_per_second=speed,
        step_overhead=overhead,
        comm_seconds=fleet.comm_seconds,
        guessed_overhead=guessed,
        steps=StepMoments(zeros, zeros, zeros, zeros, zeros, zeros),
        comm_weight=zeros,
        lateness=1.0,
        lateness_weight=1.0,
    )


def update_speeds(speeds: SpeedEstimates, report: RoundReport) -> SpeedEstimates:
    """Return the estimates after one more round. Clients without measurements keep theirs.

    Example:
        The true steps take 0.1 s + 0.01 s per sample. The guess was 0.02 s per sample.

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
        ...         learning_rate=0.1,
        ...         batch_sizes=np.array([size]),
        ...         present=np.array([True]),
        ...         samples=np.array([500.0]),
        ...         step_seconds=np.array([seconds]),
        ...         comm_seconds=np.array([0.5]),
        ...         probe=None,
        ...     )
        >>> speeds = first_estimates(fleet)
        >>> for size, seconds in [(20, 0.3), (50, 0.6), (5, 0.15)]:
        ...     speeds = update_speeds(speeds, timed(size, seconds))
        >>> speeds.samples_per_second.round(-1), speeds.step_overhead.round(2)
        (array([ 50., 100.]), array([0. , 0.1]))
    """
    speeds = _update_lateness(speeds, report)  # first, because it compares with the old estimates
    return _update_comm(_update_steps(speeds, report), report)


def estimated_fleet(fleet: Fleet, speeds: SpeedEstimates, samples: FloatArray) -> Fleet:
    """Return the fleet with the estimated speeds.

    A client that was never timed has the median of the timed clients, or its first guess if there
    are none. All times are multiplied by the lateness of rounds if it is above 1, so that a plan
    for this fleet takes as long as predicted.

    Args:
        fleet: The fleet as it was enrolled.
        speeds: The estimated speeds.
        samples: D_i as last reported, shape (n,).
    """
    timed, contacted = speeds.steps.weight > 0, speeds.comm_weight > 0
    late = max(speeds.lateness, 1.0)
    return fleet.with_columns(
        samples=samples,
        samples_per_second=fill_with_median(speeds.samples_per_second, timed) / late,
        step_overhead=fill_with_median(speeds.step_overhead, timed) * late,
        comm_seconds=fill_with_median(speeds.comm_seconds, contacted) * late,
    )


def fill_with_median(column: FloatArray, known: BoolArray) -> FloatArray:
    """Replace unknown entries by the median of the known ones. Keep all if none is known.

    Example:
        >>> fill_with_median(np.array([9.0, 3, 4, 8]), np.array([False, True, True, True]))
        array([4., 3., 4., 8.])
    """
    if known.all() or not known.any():
        return column
    return np.where(known, column, np.median(column[known]))


def _update_lateness(speeds: SpeedEstimates, report: RoundReport) -> SpeedEstimates:
    """Compare the duration of the round with the estimates of the clients timed before."""
    clients = report.clients
    seconds = report.local_steps * report.step_seconds + report.comm_seconds
    known = (speeds.steps.weight[clients] > 0) & (speeds.comm_weight[clients] > 0)
    known &= np.isfinite(seconds)
    step = speeds.step_overhead[clients] + report.batch_sizes / speeds.samples_per_second[clients]
    expected = report.local_steps * step + speeds.comm_seconds[clients]
    longest = float(np.max(expected, initial=0.0, where=known))
    if longest == 0:
        return speeds
    ratio = min(float(np.max(seconds, initial=0.0, where=known)) / longest, _MOST_LATENESS)
    weight = _MEMORY * speeds.lateness_weight + 1
    lateness = speeds.lateness + (ratio - speeds.lateness) / weight
    return replace(speeds, lateness=lateness, lateness_weight=weight)


def _update_steps(speeds: SpeedEstimates, report: RoundReport) -> SpeedEstimates:
    """Return the estimates with the step seconds of one more round."""
    timed = np.isfinite(report.step_seconds)
    clients = report.clients[timed]
    sizes, seconds = report.batch_sizes[timed].astype(np.float64), report.step_seconds[timed]
    before = speeds.steps
    after = _add_measurement(_select(before, clients), sizes, seconds)
    overhead, speed, guessed = _overhead_and_speed(after, speeds.guessed_overhead[clients])
    columns = {
        name: _replaced(getattr(before, name), clients, values)
        for name, values in vars(after).items()
    }
    return replace(
        speeds,
        steps=StepMoments(**columns),
        step_overhead=_replaced(speeds.step_overhead, clients, overhead),
        samples_per_second=_replaced(speeds.samples_per_second, clients, speed),
        guessed_overhead=_replaced(speeds.guessed_overhead, clients, guessed),
    )


def _update_comm(speeds: SpeedEstimates, report: RoundReport) -> SpeedEstimates:
    """Return the estimates with the communication seconds of one more round."""
    timed = np.isfinite(report.comm_seconds)
    clients, seconds = report.clients[timed], report.comm_seconds[timed]
    weight = _MEMORY * speeds.comm_weight[clients] + 1
    mean = speeds.comm_seconds[clients]
    mean = mean + (seconds - mean) / weight  # the first measurement replaces the guess
    return replace(
        speeds,
        comm_seconds=_replaced(speeds.comm_seconds, clients, mean),
        comm_weight=_replaced(speeds.comm_weight, clients, weight),
    )


def _add_measurement(old: StepMoments, size: FloatArray, seconds: FloatArray) -> StepMoments:
    """Return the moments with one more measurement.

    Means and variances are updated directly, because differences of sums would lose digits.
    """
    weight = _MEMORY * old.weight + 1
    share = 1 / weight  # of the new measurement
    size_change, seconds_change = size - old.size, seconds - old.seconds
    return StepMoments(
        weight=weight,
        size=old.size + share * size_change,
        seconds=old.seconds + share * seconds_change,
        size_size=(1 - share) * (old.size_size + share * size_change * size_change),
        size_seconds=(1 - share) * (old.size_seconds + share * size_change * seconds_change),
        seconds_seconds=(1 - share)
        * (old.seconds_seconds + share * seconds_change * seconds_change),
    )


def _overhead_and_speed(
    steps: StepMoments, guessed: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the overheads, the speeds, and the guessed overheads from now on.

    The slope is the mean of the regression's slope and the guessed slope, weighted by precision.
    The error of the regression is that of weighted least squares. Few measurements may fit by
    chance, so one more residual of the usual size is assumed.

    With the covariances c_ss of sizes and c_st of sizes and seconds, the regression's slope is
    c_st / c_ss. Its precision relative to the guess is r c_ss, so the weighted mean is
    (r c_st + guessed slope) / (r c_ss + 1), which is defined for c_ss = 0 too.
    """
    per_sample = steps.seconds / steps.size  # the slope if there were no overhead
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = steps.seconds_seconds - np.nan_to_num(steps.size_seconds**2 / steps.size_size)
        squares = steps.weight * np.maximum(residual, 0.0) + (_USUAL_NOISE * steps.seconds) ** 2
        noise = squares / np.maximum(steps.weight - 1, 1.0)
        r = steps.weight / noise * (_GUESS_ERROR * per_sample) ** 2
        guessed_slope = steps.seconds / (steps.size + guessed)
        slope = (r * steps.size_seconds + guessed_slope) / (r * steps.size_size + 1)
        slope = np.nan_to_num(slope)  # 0 if steps take no time
        slope = np.clip(slope, _LEAST_SLOPE * per_sample, per_sample)
        overhead = np.maximum(steps.seconds - slope * steps.size, 0.0)
        is_precise = r * steps.size_size >= _REPLACES_GUESS
        return overhead, 1 / slope, np.where(is_precise, overhead / slope, guessed)


def _select(moments: StepMoments, clients: IntArray) -> StepMoments:
    """Return the moments of some clients."""
    return StepMoments(**{name: column[clients] for name, column in vars(moments).items()})


def _replaced(column: FloatArray, clients: IntArray, values: FloatArray) -> FloatArray:
    """Return a copy of a column with other values for some clients."""
    changed = column.copy()
    changed[clients] = values
    return changed
