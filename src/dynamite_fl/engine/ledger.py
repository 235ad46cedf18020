"""Seconds and cost spent: the only book."""

from dataclasses import dataclass

from dynamite_fl.records import Limits


@dataclass(frozen=True)
class Ledger:
    """What a training has used so far.

    Example:
        >>> book = Ledger().charge(seconds=2.0, cost=3.5, samples=120, sent_bytes=800)
        >>> book.rounds, book.seconds, book.cost
        (1, 2.0, 3.5)
    """

    rounds: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    samples: int = 0
    sent_bytes: int = 0

    def charge(self, *, seconds: float, cost: float, samples: int, sent_bytes: int) -> "Ledger":
        """The book after one round more."""
        return Ledger(
            rounds=self.rounds + 1,
            seconds=self.seconds + seconds,
            cost=self.cost + cost,
            samples=self.samples + samples,
            sent_bytes=self.sent_bytes + sent_bytes,
        )

    def remaining(self, limits: Limits) -> Limits | None:
        """What is left of the limits; None if there is nothing of one of them."""
        rounds = None if limits.rounds is None else limits.rounds - self.rounds
        deadline, budget = limits.deadline - self.seconds, limits.budget - self.cost
        if rounds == 0 or deadline <= 0 or budget <= 0:
            return None
        return Limits(
            deadline=deadline,
            budget=budget,
            cost_per_sample=limits.cost_per_sample,
            cost_per_round=limits.cost_per_round,
            rounds=rounds,
            max_local_steps=limits.max_local_steps,
        )

    def keeps(self, limits: Limits, *, cost: float) -> bool:
        """Whether so much more may be spent."""
        return cost <= limits.budget - self.cost
