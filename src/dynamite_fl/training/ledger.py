"""The record of time, cost and privacy spent."""

import math
from dataclasses import dataclass, replace

from dynamite_fl.records import Limits


@dataclass(frozen=True)
class Ledger:
    """What a training has used so far.

    Attributes:
        rounds: The number of rounds.
        seconds: The seconds of all rounds.
        cost: The cost units of all rounds.
        samples: The samples that were computed on.
        sent_bytes: The bytes that were sent, both ways together.
        epsilon: The privacy loss of all rounds together; 0 without differential privacy.

    Example:
        >>> ledger = Ledger().charge(seconds=2.0, cost=3.5, samples=120, sent_bytes=800)
        >>> ledger.rounds, ledger.seconds, ledger.cost
        (1, 2.0, 3.5)
    """

    rounds: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    samples: int = 0
    sent_bytes: int = 0
    epsilon: float = 0.0

    def charge(
        self,
        *,
        seconds: float,
        cost: float,
        samples: int,
        sent_bytes: int,
        epsilon: float = 0.0,
        limits: Limits | None = None,
    ) -> "Ledger":
        """Return the ledger after one more round.

        Args:
            seconds: The seconds of the round.
            cost: The cost of the round.
            samples: The samples that the round computed on.
            sent_bytes: The bytes that the round sent.
            epsilon: The privacy loss of all rounds together, this one included: it is less than
                the sum of the rounds' own.
            limits: The limits of the training. A round that takes no more than what is left of
                them does not exceed them by a rounding error.
        """
        deadline = math.inf if limits is None else limits.deadline
        budget = math.inf if limits is None else limits.budget
        return Ledger(
            rounds=self.rounds + 1,
            seconds=_sum_within(deadline, self.seconds, seconds),
            cost=_sum_within(budget, self.cost, cost),
            samples=self.samples + samples,
            sent_bytes=self.sent_bytes + sent_bytes,
            epsilon=epsilon,
        )

    def remaining(self, limits: Limits) -> Limits | None:
        """Return what is left of the limits, or None if one of them is used up."""
        rounds = None if limits.rounds is None else limits.rounds - self.rounds
        deadline, budget = limits.deadline - self.seconds, limits.budget - self.cost
        if rounds == 0 or deadline <= 0 or budget <= 0:
            return None
        return replace(limits, deadline=deadline, budget=budget, rounds=rounds)

    def used_up(self, limits: Limits) -> str:
        """Return the name of the limit that is used up, if ``remaining`` returns None."""
        if limits.rounds is not None and self.rounds >= limits.rounds:
            return "rounds"
        return "deadline" if self.seconds >= limits.deadline else "budget"

    def keeps(self, limits: Limits, *, cost: float) -> bool:
        """Return whether the budget is enough for this much more."""
        return cost <= limits.budget - self.cost


def _sum_within(limit: float, spent: float, more: float) -> float:
    """Add what was spent. Floats round, so that a sum may exceed a limit that it should equal."""
    return min(spent + more, limit) if more <= limit - spent else spent + more
