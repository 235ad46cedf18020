"""Limits that no plan can keep, and the smallest change that would do."""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context

import numpy as np

from dynamite_fl.plan.problem import most_rounds, round_cost, round_seconds
from dynamite_fl.records import Fleet, IntArray, Limits


@dataclass(frozen=True)
class Miss:
    """One limit that is too small.

    Attributes:
        limit: ``deadline`` or ``budget``.
        given: Its value.
        needed: The smallest value that would do.
        why: What needs that much.
    """

    limit: str
    given: float
    needed: float
    why: str

    @property
    def missed_by(self) -> float:
        """How much more is needed."""
        return self.needed - self.given


class Infeasible(ValueError):  # noqa: N818  a plan is infeasible, nothing went wrong
    """The limits are too small: for ``cooptimize``, even for one step on one sample a client.

    Attributes:
        misses: Every limit that is too small.
        limit: The first of them, ``deadline`` or ``budget``.
        missed_by: By how much it is too small.
        needed: The smallest value of it that would do.
        rounds: The most rounds that fit the limits as they are; 0 if not even one.
    """

    def __init__(self, misses: tuple[Miss, ...], rounds: int) -> None:
        self.misses = misses
        self.rounds = rounds
        self.limit = misses[0].limit
        self.missed_by = misses[0].missed_by
        self.needed = misses[0].needed
        super().__init__(self._message())

    def __reduce__(self) -> tuple[type["Infeasible"], tuple[tuple[Miss, ...], int]]:
        return Infeasible, (self.misses, self.rounds)  # so that it crosses process borders

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
    """Raise ``Infeasible`` if one local step on one sample a client is already too much.

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
    require_room(fleet, limits, 1, np.ones(len(fleet), dtype=np.int64))


def require_room(fleet: Fleet, limits: Limits, local_steps: int, batch_sizes: IntArray) -> None:
    """Raise ``Infeasible`` if these rounds, or one if their number is open, do not fit."""
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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _rounded_up(value: float) -> str:
    """Ten digits, never less than the value, so that what is printed can be set as it is."""
    rounded = Context(prec=10, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{rounded.normalize():f}"
