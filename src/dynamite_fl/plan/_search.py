"""The best rounds and local steps, by branch and bound.

With more rounds or more local steps, fewer samples per step are affordable, so the least noise
rises. The noise of a smaller plan is therefore a lower bound for the noise of a larger one, which
gives a lower bound of the objective. The most promising plans are sized first, and plans that
cannot be the best are never sized. With a million clients and up to 100 local steps, usually only a
handful are.
"""

import heapq
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.errors import InvalidInput
from dynamite_fl.plan._problem import cases, round_cost, round_seconds
from dynamite_fl.plan._sizing import least_noise, rows_at_once
from dynamite_fl.plan.bounds import Objective, evaluate
from dynamite_fl.plan.feasibility import most_rounds
from dynamite_fl.records import MOST_ROUNDS, Fleet, FloatArray, IntArray, Limits

_TRIES = 4  # the number of local steps sized in the first attempt


def _or_equal(value: float) -> float:
    """Return the largest value that counts as equal, given the rounding errors of long sums."""
    return value + 1e-12 * abs(value) if math.isfinite(value) else value


@dataclass(frozen=True)
class Search:
    """A search for the best plan of one fleet under one objective.

    A floor is an array of shape (c, tau_max): for each of c pairs of a deadline and a budget, it
    has a lower bound of the noise with 1, 2, ... local steps.
    """

    fleet: Fleet
    limits: Limits
    objective: Objective

    @property
    def steps(self) -> IntArray:
        """The numbers of local steps to choose from."""
        return np.arange(1, self.limits.max_local_steps + 1)

    def best(self) -> tuple[int, int]:
        """Return the rounds and local steps of least objective. Among equals, the fewest win."""
        first, most = self._range_of_rounds()
        deadline, budget = np.array([self.limits.deadline]), np.array([self.limits.budget])
        best, choice = np.inf, (first, 1)
        queue = [(-np.inf, first, most, np.zeros((1, self.steps.size)))]
        while queue and queue[0][0] <= _or_equal(best):
            least, first, last, floor = heapq.heappop(queue)
            if least >= best and first >= choice[0]:
                continue  # it cannot be better, and it has more rounds
            floor = self.raise_floor(first, deadline, budget, floor, np.array([_or_equal(best)]))
            values = self.value(first, floor)[0]
            value = values.min()
            if value < best or (value <= _or_equal(best) and first < choice[0]):
                choice = (first, 1 + int(np.argmin(values)))
            best = min(best, value)
            middle = (first + last) // 2
            for begin, end in ((first + 1, middle), (middle + 1, last)):
                if first < begin <= end:
                    least = self._least_over_rounds(begin, end, floor)
                    heapq.heappush(queue, (least, begin, end, floor))
        return choice

    def value(self, rounds: ArrayLike, noise: FloatArray) -> FloatArray:
        """Return the objective for 1, 2, ... local steps at this noise, (c, tau_max)."""
        return evaluate(self.objective, rounds, self.steps, noise)

    def raise_floor(
        self,
        rounds: int,
        deadlines: FloatArray,
        budgets: FloatArray,
        floor: FloatArray,
        best: FloatArray,
    ) -> FloatArray:
        """Return the floor at these rounds, exact wherever the objective may be the best.

        An entry is exact if its objective is at most the least of its row, and at most the value
        in ``best``, which has shape (c,).
        """
        tries = _TRIES
        sized = np.zeros(floor.shape, dtype=bool)
        while True:
            values = self.value(rounds, floor)
            best = np.minimum(best, values.min(axis=1, where=sized, initial=np.inf))
            promising = ~sized & (values <= best[:, None]) & np.isfinite(values)
            if not promising.any():
                return floor
            order = np.argsort(np.where(promising, values, np.inf), axis=1, kind="stable")
            chosen = np.zeros_like(sized)
            np.put_along_axis(
                chosen, order[:, : min(tries, rows_at_once(self.fleet))], True, axis=1
            )
            chosen &= promising
            row, column = np.nonzero(chosen)
            case = cases(rounds, self.steps[column], deadlines[row], budgets[row])
            floor = floor.copy()
            floor[chosen] = least_noise(self.fleet, self.limits, case)
            floor = np.maximum.accumulate(floor, axis=1)
            sized |= chosen
            tries = 2 * tries  # sizing many candidates together is faster

    def _range_of_rounds(self) -> tuple[int, int]:
        if self.limits.rounds is not None:
            return self.limits.rounds, self.limits.rounds
        least = self.fleet.least_batches
        seconds = float(round_seconds(self.fleet, 1, least).max())
        cost = float(round_cost(self.limits, 1, least.sum()))
        most = most_rounds(self.limits, seconds, cost)
        if most > MOST_ROUNDS:
            raise InvalidInput("Limits.rounds is needed: neither deadline nor budget ends training")
        return 1, int(most)

    def _least_over_rounds(self, first: int, last: int, floor: FloatArray) -> float:
        """Return the least objective that the floor allows between ``first`` and ``last`` rounds.

        At given noise and local steps, the objective falls and then rises in the rounds, so its
        least value is found by bisection.
        """
        low, high = np.full(floor.shape, first), np.full(floor.shape, last)
        while (low < high).any():
            middle = (low + high) // 2
            rises = (self.value(middle + 1, floor) >= self.value(middle, floor)) | (low == high)
            low, high = np.where(rises, low, middle + 1), np.where(rises, middle, high)
        return float(self.value(low, floor).min())
