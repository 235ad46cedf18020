"""The learning rate of each round, by what is spent of the limits.

The number of rounds of a training is not known in advance: the deadline or the budget may end it.
So a schedule does not count rounds. It follows the share of the limits that is spent, and reaches
its end when the training does.
"""

import math
from dataclasses import dataclass

from dynamite_fl._validate import check_name, check_number

SCHEDULES = ("constant", "linear", "cosine")
_FIRST_RATE = 0.1  # the rate at the start of a warm-up, as a share of the learning rate
_LONGEST_WARMUP = 0.99


@dataclass(frozen=True)
class RateSchedule:
    """How the learning rate of local steps changes during a training.

    The warm-up comes first. In it, the rate rises linearly from a tenth of ``learning_rate``: at a
    rate of 0, the first round would be for nothing. After the warm-up, the rate stays constant, or
    it falls from ``learning_rate`` to the final rate, either linearly or along half a cosine wave.

    Attributes:
        learning_rate: The largest learning rate.
        schedule: ``constant``, ``linear`` or ``cosine``.
        warmup: The share of the limits after which the warm-up ends. With 0, there is none.
        final_rate: The rate when the limits are used up, as a share of ``learning_rate``. It is
            above 0, because a round at a rate of 0 would spend time and money on nothing. It has no
            effect on the schedule ``constant``.

    Example:
        >>> rate = RateSchedule(0.4, "linear", warmup=0.2, final_rate=0.5)
        >>> [round(rate.at(share), 3) for share in (0, 0.1, 0.2, 0.6, 1)]
        [0.04, 0.22, 0.4, 0.3, 0.2]
    """

    learning_rate: float
    schedule: str = "constant"
    warmup: float = 0.0
    final_rate: float = 0.01

    def __post_init__(self) -> None:
        check_number("training.learning_rate", self.learning_rate, positive=True)
        check_name("training.schedule", self.schedule, SCHEDULES)
        check_number("training.warmup", self.warmup, largest=_LONGEST_WARMUP)
        check_number("training.final_rate", self.final_rate, positive=True, largest=1)

    @property
    def is_constant(self) -> bool:
        """Whether all rounds have the same learning rate."""
        return self.schedule == "constant" and self.warmup == 0

    def at(self, share_spent: float) -> float:
        """Return the learning rate of a round that begins when this share of the limits is spent.

        Args:
            share_spent: The largest of the spent shares of the rounds, the deadline and the budget,
                from 0 to 1.
        """
        if share_spent < self.warmup:
            return self.learning_rate * (
                _FIRST_RATE + (1 - _FIRST_RATE) * share_spent / self.warmup
            )
        if self.schedule == "constant":
            return self.learning_rate
        left = (1 - share_spent) / (1 - self.warmup)  # of what follows the warm-up
        if self.schedule == "cosine":
            left = (1 - math.cos(math.pi * left)) / 2
        return self.learning_rate * (self.final_rate + (1 - self.final_rate) * left)
