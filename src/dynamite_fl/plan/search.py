"""The best rounds and local steps, by branch and bound.

More rounds or more local steps leave fewer samples a step, so the least noise only rises
with them. The noise at few is therefore a floor for the noise at more, and gives the
objective a floor. What promises most is looked at first, and what cannot win is never
sized: of 100 local steps for a million clients, usually a handful is.
"""

import heapq
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.plan.bound import Objective, evaluate
from dynamite_fl.plan.problem import cases, most_rounds, round_cost, round_seconds
from dynamite_fl.plan.sizing import least_noise, rows_at_once
from dynamite_fl.records import MOST_ROUNDS, Fleet, FloatArray, IntArray, Limits, LossGeometry

_TRIES = 4  # local steps sized at first, most promising first


def _or_equal(value: float) -> float:
    """The largest that counts as equal: sums of a million terms differ by rounding."""
    return value + 1e-12 * abs(value) if math.isfinite(value) else value


@dataclass(frozen=True)
class Search:
    """A search in one fleet under one objective.

    A floor is an array (c, tau_max): for each of c pairs of a deadline and a budget, a lower
    bound on the noise with 1, 2, ... local steps.
    """

    fleet: Fleet
    limits: Limits
    geometry: LossGeometry
    objective: Objective

    @property
    def steps(self) -> IntArray:
        """All local steps that may be chosen."""
        return np.arange(1, self.limits.max_local_steps + 1)

    def best(self) -> tuple[int, int]:
        """The rounds and local steps of least objective; of equals, the fewest."""
        first, most = self._range_of_rounds()
        deadline, budget = np.array([self.limits.deadline]), np.array([self.limits.budget])
        best, choice = np.inf, (first, 1)
        queue = [(-np.inf, first, most, np.zeros((1, self.steps.size)))]
        while queue and queue[0][0] <= _or_equal(best):
            least, first, last, floor = heapq.heappop(queue)
            if least >= best and first >= choice[0]:
                continue  # at best as good, with more rounds
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
        """The objective for 1, 2, ... local steps at this noise, (c, tau_max)."""
        return evaluate(self.objective, self.geometry, rounds, self.steps, noise)

    def raise_floor(
        self,
        rounds: int,
        deadlines: FloatArray,
        budgets: FloatArray,
        floor: FloatArray,
        best: FloatArray,
    ) -> FloatArray:
        """The floor at these rounds, made exact wherever the objective may reach ``best``, (c,).

        Every entry whose objective is then at most the least of its row and of ``best`` is
        exact.
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
            tries = 2 * tries  # if many may win, sizing them together is quicker

    def _range_of_rounds(self) -> tuple[int, int]:
        if self.limits.rounds is not None:
            return self.limits.rounds, self.limits.rounds
        seconds = float(round_seconds(self.fleet, 1, np.ones(len(self.fleet))).max())
        cost = float(round_cost(self.limits, 1, len(self.fleet)))
        most = most_rounds(self.limits, seconds, cost)
        if most > MOST_ROUNDS:
            raise ValueError("Limits.rounds is needed: neither deadline nor budget ends training")
        return 1, int(most)

    def _least_over_rounds(self, first: int, last: int, floor: FloatArray) -> float:
        """The least objective that ``floor`` allows from first to last rounds.

        By bisection for each local steps: at given noise the objective falls and then rises.
        """
        low, high = np.full(floor.shape, first), np.full(floor.shape, last)
        while (low < high).any():
            middle = (low + high) // 2
            rises = (self.value(middle + 1, floor) >= self.value(middle, floor)) | (low == high)
            low, high = np.where(rises, low, middle + 1), np.where(rises, middle, high)
        return float(self.value(low, floor).min())
