"""Whether limits can be kept: how many rounds fit, and the smallest change if none does."""

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context

import numpy as np

from dynamite_fl.errors import DynamiteError
from dynamite_fl.plan._problem import round_cost, round_seconds
from dynamite_fl.records import Fleet, IntArray, Limits

_UNCOUNTABLE = 2.0**53  # above this number, doubles no longer represent every whole number


@dataclass(frozen=True)
class Miss:
    """One limit that is too small.

    Attributes:
        limit: ``deadline`` or ``budget``.
        given: The value of the limit.
        needed: The smallest sufficient value.
        why: The reason why that much is needed.
    """

    limit: str
    given: float
    needed: float
    why: str

    @property
    def missed_by(self) -> float:
        """The difference between the needed and the given value."""
        return self.needed - self.given


class Infeasible(DynamiteError, ValueError):  # noqa: N818  it describes the limits
    """The limits are too small, even for the smallest plan.

    What to do: raise the limit that the message names to what it says, or lower the rounds.

    Attributes:
        misses: Every limit that is too small.
        limit: The first of these limits, ``deadline`` or ``budget``.
        missed_by: The amount by which the first limit is too small.
        needed: The smallest sufficient value of the first limit.
        rounds: The largest number of rounds that fit the limits as they are. 0 if none fits.
    """

    def __init__(self, misses: tuple[Miss, ...], rounds: int) -> None:
        self.misses = misses
        self.rounds = rounds
        self.limit = misses[0].limit
        self.missed_by = misses[0].missed_by
        self.needed = misses[0].needed
        super().__init__(self._message())

    def __reduce__(self) -> tuple[type["Infeasible"], tuple[tuple[Miss, ...], int]]:
        return Infeasible, (self.misses, self.rounds)  # so that it can be pickled

    def _message(self) -> str:
        reasons = "; ".join(
            f"the {miss.limit} of {miss.given:.10g} is missed by {_rounded_up(miss.missed_by)}, "
            f"as {miss.why}"
            for miss in self.misses
        )
        change = " and ".join(f"{miss.limit} = {_rounded_up(miss.needed)}" for miss in self.misses)
        fewer = f", or rounds = {self.rounds}" if self.rounds else ""
        return f"{reasons}. The smallest change: {change}{fewer}"


def require_feasible(fleet: Fleet, limits: Limits) -> None:
    """Raise ``Infeasible`` if even one local step on the least batches is too much.

    The least batch is one sample, unless the fleet says otherwise.

    Example:
        >>> fleet = Fleet(
        ...     samples=[9, 9], gradient_variance=1, samples_per_second=[10, 2], comm_seconds=0.5
        ... )
        >>> limits = Limits(
        ...     deadline=60, budget=10, cost_per_sample=0.01, cost_per_round=0, rounds=100
        ... )
        >>> try:
        ...     require_feasible(fleet, limits)
        ... except Infeasible as error:
        ...     print(error.limit, error.missed_by, error.needed, error.rounds)
        deadline 40.0 100.0 60
    """
    require_room(fleet, limits, 1, fleet.least_batches.astype(np.int64))


def require_room(fleet: Fleet, limits: Limits, local_steps: int, batch_sizes: IntArray) -> None:
    """Raise ``Infeasible`` if the limits' rounds do not fit, or one round if they have none."""
    rounds = 1 if limits.rounds is None else limits.rounds
    seconds = round_seconds(fleet, local_steps, batch_sizes)
    slowest = int(np.argmax(seconds))
    cost = float(round_cost(limits, local_steps, batch_sizes.sum()))
    work = f"of {_count(local_steps, 'local step')}"
    times = "" if rounds == 1 else f", and there are {rounds} rounds"
    misses = []
    if rounds * seconds[slowest] > limits.deadline:
        why = (
            f"{fleet.label(slowest)} needs {seconds[slowest]:.3g} s for a round {work} on "
            f"{_count(int(batch_sizes[slowest]), 'sample')} "
            f"({fleet.comm_seconds[slowest]:.3g} s of it for communication){times}"
        )
        misses.append(Miss("deadline", limits.deadline, float(rounds * seconds[slowest]), why))
    if rounds * cost > limits.budget:
        why = (
            f"a round {work} on {_count(int(batch_sizes.sum()), 'sample')} costs {cost:.3g} "
            f"({limits.cost_per_round:.3g} of it whatever the samples){times}"
        )
        misses.append(Miss("budget", limits.budget, rounds * cost, why))
    if misses:
        possible = most_rounds(limits, float(seconds[slowest]), cost)
        raise Infeasible(tuple(misses), int(possible) if math.isfinite(possible) else 0)


def fit_rounds(fleet: Fleet, limits: Limits, local_steps: int = 1) -> Limits:
    """Return the limits with at most as many rounds as fit with the least batches.

    Raises:
        Infeasible: Not even one round fits. The error says what a single round needs, and not what
            all rounds of the limits need.

    Example:
        >>> fleet = Fleet(samples=[9], gradient_variance=1, samples_per_second=1, comm_seconds=1)
        >>> limits = Limits(deadline=10, budget=10, cost_per_sample=0, cost_per_round=0, rounds=100)
        >>> fit_rounds(fleet, limits).rounds  # a round takes two seconds
        5
    """
    smallest = fleet.least_batches.astype(np.int64)
    require_room(fleet, replace(limits, rounds=1), local_steps, smallest)
    try:
        require_room(fleet, limits, local_steps, smallest)
    except Infeasible as error:
        return replace(limits, rounds=error.rounds)
    return limits


def most_rounds(limits: Limits, seconds: float, cost: float) -> float:
    """Return how many rounds of this duration and cost fit. Infinity if no limit ends them."""
    wanted = math.inf if limits.rounds is None else limits.rounds
    return min(_times(seconds, limits.deadline), _times(cost, limits.budget), wanted)


def _times(part: float, whole: float) -> float:
    """Return how often a part fits into the whole, as computed in floating point."""
    if part == 0 or whole / part >= _UNCOUNTABLE:
        return math.inf
    times = math.floor(whole / part)
    times += (times + 1) * part <= whole
    return times - (times * part > whole)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _rounded_up(value: float) -> str:
    """Return ten digits, rounded up, so that the printed number is sufficient as a limit."""
    rounded = Context(prec=10, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{rounded.normalize():f}"
