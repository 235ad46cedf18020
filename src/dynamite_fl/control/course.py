"""What do local steps bring? Read off the path that the model takes.

A round's local steps have a head, their first half, and a tail, their second half. Where a later
round sets out, its own head says which way the loss falls. So the inner product of a head with
earlier heads is what a step in the first half of a round gained, and with earlier tails what a
step in the second half still gained: little where clients run apart, less than nothing where they
run past each other. Rounds draw their batches independently, so noise does not look like
gain. The noise that one round leaves in the model, the next one works off first of all, against
where the last one led; so heads are compared with rounds before the last only.

What the t-th of tau steps gains is taken as a curve through both: clients soon learn what they
alone have, and then less and less, so it falls fast at first; (1 - at)^3 does. Beyond 1/a it is
below nothing, which says no more than that rounds should end there.

Many steps on few samples can also run away, where their learning rate is too large for what single
samples say, though not for their mean. Gradients then vary many times as much as ever before.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.records import FloatArray
from dynamite_fl.reports import PathReport

_MEMORY = 0.8  # what a round counts one round later
_HEAD, _TAIL = 0.25, 0.75  # where the middles of head and tail are on the way
_POWER = 3  # of the curve; odd
_BEYOND = 10.0  # how many times as much as ever before gradients vary where steps were too many


@dataclass(frozen=True, eq=False)
class Course:
    """What the path of the model has shown so far; the newest rounds count most.

    Attributes:
        head: Mean gradient of earlier heads, (m,).
        tail: The same of earlier tails, (m,).
        local_steps: Of how many local steps they are.
        newest_steps: The same of the newest round in these means.
        path_weight: Of these means; 0 before the second round.
        last_head: Of the last round, which is in no mean yet, (m,).
        last_tail: Likewise, (m,).
        last_steps: Likewise; 0 before the first round.
        slope: Mean gain of a step in a head, for a learning rate of 1: the squared norm of the
            global gradient, without noise.
        tail_slope: The same of a step in a tail.
        spread: Variance of single rounds' slopes around their mean.
        weight: Of these means; 0 before the third round.
        largest_variance: Of single samples' gradients, in any round so far, a mean over clients.
        most_steps: Half the fewest that ran away.
    """

    head: FloatArray
    tail: FloatArray
    local_steps: float = 1.0
    newest_steps: float = 1.0
    path_weight: float = 0.0
    last_head: FloatArray = field(default_factory=lambda: np.zeros(0))
    last_tail: FloatArray = field(default_factory=lambda: np.zeros(0))
    last_steps: int = 0
    slope: float = 0.0
    tail_slope: float = 0.0
    spread: float = 0.0
    weight: float = 0.0
    largest_variance: float = 0.0
    most_steps: float = math.inf

    @property
    def error(self) -> float:
        """Roughly the standard error of the slope; before it can be told, all of it."""
        return math.sqrt(self.spread / self.weight) if self.weight > 1 else abs(self.slope)

    @property
    def persistence(self) -> float:
        """What a step in a tail gains of what one in a head does, from -1 to 1."""
        least = max(self.error / 2, np.finfo(float).tiny)  # less than this cannot be told
        return float(np.clip(self.tail_slope / max(self.slope, least), -1.0, 1.0))


NO_COURSE = Course(np.zeros(0), np.zeros(0))


def follow(course: Course, path: PathReport, local_steps: int, learning_rate: float) -> Course:
    """The course after one round more."""
    head, tail = path.head / learning_rate, path.tail / learning_rate
    after = replace(_with_last(course), last_head=head, last_tail=tail, last_steps=local_steps)
    after = _watched(after, path, local_steps)
    if course.path_weight == 0:
        return after
    weight = _MEMORY * course.weight + 1
    slope, tail_slope = float(head @ course.head), float(head @ course.tail)
    off = slope - course.slope
    return replace(
        after,
        slope=course.slope + off / weight,
        tail_slope=course.tail_slope + (tail_slope - course.tail_slope) / weight,
        spread=(1 - 1 / weight) * (course.spread + off**2 / weight),
        weight=weight,
    )


def _watched(course: Course, path: PathReport, local_steps: int) -> Course:
    """The course with fewer steps from now on if those of this round ran away."""
    measured = path.gradient_variance[np.isfinite(path.gradient_variance)]
    if not measured.size:
        return course
    variance, largest = float(measured.mean()), course.largest_variance
    if 0 < _BEYOND * largest < variance:
        return replace(course, most_steps=min(course.most_steps, local_steps / 2))
    return replace(course, largest_variance=max(largest, variance))


def _with_last(course: Course) -> Course:
    """The course with its last round in the means."""
    if course.last_steps == 0:
        return course
    if course.path_weight == 0:
        first = replace(course, head=course.last_head, tail=course.last_tail)
        steps = float(course.last_steps)
        return replace(first, local_steps=steps, newest_steps=steps, path_weight=1.0)
    weight = _MEMORY * course.path_weight + 1
    return replace(
        course,
        head=course.head + (course.last_head - course.head) / weight,
        tail=course.tail + (course.last_tail - course.tail) / weight,
        local_steps=course.local_steps + (course.last_steps - course.local_steps) / weight,
        newest_steps=float(course.last_steps),
        path_weight=weight,
    )


def progress(course: Course, local_steps: ArrayLike) -> FloatArray:
    """By how much a round of so many local steps lowers the loss, for a learning rate of 1.

    The slope is taken as large as it may well be, its mean and a standard error: what is not
    known yet should be tried.

    Example:
        A step in the first half gains 1, one in the second half loses 1: halfway it is nothing.

        >>> both = np.ones(1)
        >>> course = Course(both, both, local_steps=8.0, slope=1.0, tail_slope=-1.0, weight=9.0)
        >>> progress(course, [2, 4, 8])
        array([7.5, 8. , 0. ])

        If it still gains an eighth, whose root is a half, nothing is gained after ten steps.

        >>> course = replace(course, tail_slope=0.125)
        >>> progress(course, [4, 10, 12]).round(2)
        array([4.25, 4.88, 4.87])
    """
    share = np.asarray(local_steps, dtype=np.float64) / course.local_steps
    q = course.persistence if course.local_steps > 1 else 1.0  # a single step has no tail
    root = math.copysign(abs(q) ** (1 / _POWER), q)
    fall = (1 - root) / (_TAIL - root * _HEAD)
    start = (max(course.slope, 0.0) + course.error) / (1 - fall * _HEAD) ** _POWER
    left = 1 - fall * share
    gained = share * sum(left**power for power in range(_POWER + 1)) / (_POWER + 1)
    return np.asarray(start * course.local_steps * gained)
