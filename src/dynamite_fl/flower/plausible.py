"""What a node may say: the rules by which the figures of a reply are believed.

A server cannot look into a node, but it has three things to compare its figures with: what it
measures itself, such as the time from an order to its reply; what the node said when it introduced
itself; and what the other nodes say in the same round. A figure that contradicts the first two is
``Implausible``. Comparisons with other nodes need three of them, because with two nodes nobody can
tell which one is wrong. So one node among three or more moves a figure of a plan by no more than
``LARGEST_FIGURE`` times what the others say.

All functions here are pure. ``answers.py`` applies them, and ``conduct.py`` says what happens to a
node that breaks them.
"""

import math
from collections.abc import Sequence

import numpy as np

from dynamite_fl.flower.wire import Malformed
from dynamite_fl.records import BoolArray, FloatArray, IntArray

LARGEST_FIGURE = 10.0  # the largest figure that counts, as a multiple of the median of all nodes
ABSURD_FIGURE = 1e6  # times the largest figure that counts; no honest node says that
LARGEST_MOVEMENT = 10.0  # of a local model, as a multiple of the median, for equal batches
LARGEST_DEVIATION = 3.0  # of a path from the usual one, as a multiple of the median deviation
ABSURD_DEVIATION = 100.0  # as the one before, but a node that exceeds it is implausible
MOST_SPEED_RATIO = 1000.0  # of a node's speed to the median, either way
LEAST_NODES = 3  # with fewer, nobody can tell which of them is wrong

_FASTEST, _SLOWEST = 1e9, 1e-6  # samples per second that a node can claim
_CLOCK_SHARE, _CLOCK_SECONDS = 0.01, 0.05  # by which two clocks may differ over a round
_GROWTH = 2.0  # the largest growth of a node's samples in one round, whatever others say
_FREE_SAMPLES = 1000  # that may arrive at any node in one round
_LEAST_STEP_SECONDS = 1e-9


class Implausible(Malformed):
    """A message whose figures cannot be true; the text says which."""


def check_speed(samples_per_second: float, seconds: float, round_trip: float) -> None:
    """Refuse the speed of an introduction that cannot be true.

    Args:
        samples_per_second: The speed that the node claims.
        seconds: The seconds that the node says it took to find this out.
        round_trip: The seconds that the server measured, from request to reply.

    Raises:
        Implausible: A figure cannot be true.

    Example:
        >>> check_speed(0.0, seconds=0.1, round_trip=0.2)
        Traceback (most recent call last):
        dynamite_fl.flower.plausible.Implausible: it says that it computes 0 samples per second
    """
    if not _SLOWEST <= samples_per_second <= _FASTEST:
        raise Implausible(f"it says that it computes {samples_per_second:g} samples per second")
    _check_within("computed", seconds, round_trip)


def check_seconds(step_seconds: float, local_steps: int, seconds: float, round_trip: float) -> None:
    """Refuse times that are longer than the server waited.

    Args:
        step_seconds: The seconds of one local step that the node claims.
        local_steps: The number of local steps that were ordered.
        seconds: The seconds of all that the node computed, as it claims.
        round_trip: The seconds that the server measured, from order to reply.

    Raises:
        Implausible: A time cannot be true.

    Example:
        >>> check_seconds(1e6, 4, seconds=0.5, round_trip=1.0)
        Traceback (most recent call last):
        dynamite_fl.flower.plausible.Implausible: it says that it computed for 4e+06 s, but its \
reply came after 0.5 s
    """
    _check_within("computed", seconds, round_trip)
    _check_within("computed", step_seconds * local_steps, seconds)
    if step_seconds < _LEAST_STEP_SECONDS:
        raise Implausible(f"it says that a local step took {step_seconds:g} s")


def check_work(
    computed: int, measured: int, local_steps: int, most: int, *, most_measured: int
) -> None:
    """Refuse a number of computed samples that does not fit the order.

    Args:
        computed: The samples of all local steps that the node claims.
        measured: The samples that it says it computed on for measurements.
        local_steps: The number of local steps that were ordered.
        most: The largest number of samples that the order allows in local steps.
        most_measured: The largest number of samples for measurements.

    Raises:
        Implausible: A number is too small or too large.
    """
    if not local_steps <= computed <= most:
        raise Implausible(
            f"it says that it computed {computed} samples in {local_steps} local steps, which the "
            f"order limits to {most}"
        )
    if measured > most_measured:
        raise Implausible(
            f"it says that it measured {measured} samples, but {most_measured} are the most"
        )


def allowed_samples(claimed: int, known: int, *, streams: bool, others: Sequence[float]) -> int:
    """Return how many samples a node is believed to have.

    Args:
        claimed: The number of samples in its reply.
        known: The number that it was last believed to have; at first, that of its introduction.
        streams: Whether it said at its introduction that samples keep arriving.
        others: The numbers of samples that the other nodes of the round claim.

    Returns:
        The claimed number, or the largest that is believed: twice the known number and 1000 more,
        or ten times the median of the others.

    Raises:
        Implausible: The number has changed though no samples arrive.

    Example:
        >>> allowed_samples(700, 500, streams=True, others=[500, 400, 600])
        700
        >>> allowed_samples(10_000_000, 500, streams=True, others=[500, 400, 600])
        5000
    """
    if not streams:
        if claimed != known:
            raise Implausible(
                f"it says that it has {claimed} samples, but it had {known} when it introduced "
                "itself, and said that none arrive"
            )
        return claimed
    if len(others) < LEAST_NODES - 1:
        return claimed
    most = max(_GROWTH * known + _FREE_SAMPLES, LARGEST_FIGURE * float(np.median(others)))
    return min(claimed, math.floor(most))


def bounded(figures: FloatArray, factor: float = LARGEST_FIGURE) -> FloatArray:
    """Return a round's figures, none of them larger than a multiple of the median.

    Signs are kept, and unknown figures stay NaN. If the median is 0, the limit is the second
    largest figure, so that one node alone cannot raise it.

    Args:
        figures: A figure of each node of the round, NaN where it is unknown, (m,).
        factor: The largest figure, as a multiple of the median of absolute values.

    Example:
        >>> bounded(np.array([1.0, 2.0, 3.0, 1e29]))
        array([ 1.,  2.,  3., 20.])
    """
    known = np.isfinite(figures)
    if known.sum() < LEAST_NODES:
        return figures
    limit = factor * low_median(np.abs(figures[known]))
    if limit == 0:
        limit = float(np.sort(np.abs(figures[known]))[-2])
    return np.where(known, np.clip(figures, -limit, limit), figures)


def is_absurd(figures: FloatArray) -> BoolArray:
    """Return which figures are beyond all others by a factor that no honest node reaches.

    Example:
        >>> is_absurd(np.array([1.0, 2.0, 300.0, 1e29]))
        array([False, False, False,  True])
    """
    return np.abs(figures) > ABSURD_FIGURE * np.abs(bounded(figures))


def believed_speeds(speeds: FloatArray) -> FloatArray:
    """Return the speeds of introductions, limited to between 1/1000 and 1000 times the median.

    Example:
        >>> believed_speeds(np.array([100.0, 200.0, 1e9]))
        array([1.e+02, 2.e+02, 2.e+05])
    """
    if speeds.size < LEAST_NODES:
        return speeds
    usual = float(np.median(speeds))
    return np.clip(speeds, usual / MOST_SPEED_RATIO, usual * MOST_SPEED_RATIO)


def is_too_far(norms: FloatArray, batch_sizes: IntArray) -> BoolArray:
    """Return which local models moved implausibly far from the global model.

    The noise of a gradient falls with the square root of its batch, so a node with smaller batches
    than the median may move further. A norm that is not finite is not judged here.

    Args:
        norms: The distance of each local model from the global model, (m,).
        batch_sizes: The batch sizes that were ordered, (m,).

    Example:
        >>> is_too_far(np.array([1.0, 2.0, 11.0, 50.0]), np.array([8, 8, 8, 8]))
        array([False, False, False,  True])
    """
    known = np.isfinite(norms)
    if known.sum() < LEAST_NODES:
        return np.zeros(norms.size, dtype=bool)
    smaller = np.median(batch_sizes[known]) / np.maximum(batch_sizes, 1)
    limit = LARGEST_MOVEMENT * low_median(norms[known]) * np.sqrt(np.maximum(smaller, 1.0))
    return known & (norms > limit) & (limit > 0)


def believed_paths(first: FloatArray, whole: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the first halves of paths, none far from the usual share of the whole path.

    The server knows the whole movement of each node, so what a node can lie about is which part of
    it belongs to the first half of its steps. The usual share is the median of all nodes. Of what
    deviates from this share, no more counts than three times the median deviation.

    Args:
        first: Sketches of the movement in the first half, one row for each node, (n, m).
        whole: Sketches of the whole movement, (n, m).

    Returns:
        The first halves that are believed, (n, m), and which of them are absurd, (n,).

    Example:
        >>> whole = np.array([[2.0, 0.0], [0.0, 4.0], [2.0, 2.0]])
        >>> first = np.array([[1.0, 0.1], [0.1, 2.0], [1e14, 0.0]])
        >>> believed, absurd = believed_paths(first, whole)
        >>> bool(np.abs(believed).max() < 3), absurd
        (True, array([False, False,  True]))
    """
    nobody = np.zeros(len(first), dtype=bool)
    if len(first) < LEAST_NODES:
        return first, nobody
    squares = np.einsum("nm,nm->n", whole, whole)
    projections = np.einsum("nm,nm->n", first, whole)
    shares = np.divide(projections, squares, out=np.full(len(first), 0.5), where=squares > 0)
    usual = np.clip(low_median(shares), 0.0, 1.0) * whole
    deviations = np.linalg.norm(first - usual, axis=1)
    limit = low_median(deviations)
    if limit == 0:
        limit = float(np.sort(deviations)[-2])
    absurd = deviations > ABSURD_DEVIATION * limit + ABSURD_DEVIATION * np.sqrt(np.median(squares))
    kept = np.divide(
        LARGEST_DEVIATION * limit,
        deviations,
        out=np.ones(len(first)),
        where=deviations > LARGEST_DEVIATION * limit,
    )
    is_kept = kept == 1  # to the bit, as most of them are
    return np.where(is_kept[:, None], first, usual + kept[:, None] * (first - usual)), absurd


def low_median(values: FloatArray) -> float:
    """Return the median; of an even number of values, the smaller one of the middle two."""
    return float(np.sort(values)[(values.size - 1) // 2])


def _check_within(what: str, seconds: float, most: float) -> None:
    if seconds > most * (1 + _CLOCK_SHARE) + _CLOCK_SECONDS:
        raise Implausible(
            f"it says that it {what} for {seconds:g} s, but its reply came after {most:g} s"
        )
