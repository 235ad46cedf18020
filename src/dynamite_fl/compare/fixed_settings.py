"""The fixed settings that a search for the best one may try.

They are points of a grid of three integers: the place of the learning rate in ``rates.py``, how
often one local step is doubled, and how often the batch size is halved. A batch that is halved 0
times uses up the limits in all rounds.

A step's gain depends on the rate times the local steps. So the search does not only change one of
the three at a time: it also divides the rate when it multiplies the local steps.
"""

import math
from dataclasses import dataclass

from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.compare.pattern_search import Pattern, Point
from dynamite_fl.compare.rates import rate_at
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.control.fitting import constant_plan, largest_batch
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import Fleet, Limits

_DIRECTIONS = ((1, 0, 0), (0, 1, 0), (-1, 1, 0), (0, 0, 1))
_STRIDES = (2, 1)
_FIRST_DOUBLINGS = (1, 3, 5)  # 2, 8 and 32 local steps
_FIRST_BATCH = 64  # the largest batch size to begin with


@dataclass(frozen=True, eq=False)
class FixedSettings:
    """All fixed settings of a job.

    Attributes:
        fleet: The clients of a round, with their nominal speeds.
        limits: The limits of the job.

    Example:
        >>> fleet = Fleet(samples=[99], gradient_variance=1, samples_per_second=100, comm_seconds=0)
        >>> limits = Limits(
        ...     deadline=20, budget=90, cost_per_sample=0.1, cost_per_round=0, rounds=50
        ... )
        >>> FixedSettings(fleet, limits).at((-4, 1, 0))  # 18 samples for each of 50 rounds
        FixedSetting(local_steps=2, batch_size=9, learning_rate=0.1)
    """

    fleet: Fleet
    limits: Limits

    def at(self, point: Point) -> FixedSetting | None:
        """Return the setting at a point; None if there is none, or if it does not fit."""
        place, doublings, halvings = point
        steps = self._local_steps(doublings)
        if steps is None:
            return None
        size = self._largest_batch(steps) / 2.0**halvings
        if size < 1:
            return None
        size = min(round(size), int(self.fleet.at_hand.max()))
        setting = FixedSetting(steps, size, rate_at(place))
        return setting if self._fits(steps, size) else None

    def pattern(self, place: int) -> Pattern:
        """Return where to search.

        Args:
            place: The place of FedAvg's best rate. More steps on fewer samples need a lower one.
        """
        most = math.ceil(math.log2(self.limits.max_local_steps))
        like_fedavg, few, many = (min(doublings, most) for doublings in _FIRST_DOUBLINGS)
        start = [(place, like_fedavg), (place, few), (place - 2, few)]
        start += [(place - 2, many), (place - 4, many)]
        points = [(at, doublings, self._first_halvings(doublings)) for at, doublings in start]
        return Pattern(points, _DIRECTIONS, _STRIDES)

    def _local_steps(self, doublings: int) -> int | None:
        """Return a power of two, or the most local steps if only the next power exceeds them."""
        most = self.limits.max_local_steps
        if doublings < 0 or 2 ** (doublings - 1) >= most:
            return None
        return min(1 << doublings, most)

    def _first_halvings(self, doublings: int) -> int:
        size = self._largest_batch(self._local_steps(doublings) or 1)
        return max(0, math.ceil(math.log2(max(size, 1) / _FIRST_BATCH)))

    def _largest_batch(self, local_steps: int) -> int:
        """Return the largest batch size that both limits allow in all rounds.

        If the limits do not allow one sample in so many rounds, half as many rounds are assumed,
        and so on.
        """
        rounds = self._rounds()
        while rounds > 0:
            size = largest_batch(self.fleet, self.limits, rounds, local_steps)
            if size > 0:
                return size
            rounds //= 2
        return 0

    def _rounds(self) -> int:
        """Return the job's rounds. Default: as many as fit with FedAvg's setting, or one sample."""
        if self.limits.rounds is not None:
            return self.limits.rounds
        steps, size = FedAvg.local_steps, FedAvg.batch_size
        steps, size = (steps, size) if self._fits(steps, size) else (1, 1)
        return constant_plan(self.fleet, self.limits, steps, size).rounds

    def _fits(self, local_steps: int, batch_size: int) -> bool:
        try:
            constant_plan(self.fleet, self.limits, local_steps, batch_size)
        except Infeasible:
            return False
        return True
