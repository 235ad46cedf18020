"""The count of rounds in which the user's code fails on every node."""

from dataclasses import dataclass

MOST_FAILED_ROUNDS = 3  # in a row, before the training ends


@dataclass(eq=False)
class FailedRounds:
    """Counts rounds in a row in which the user's code fails on every node.

    Attributes:
        in_a_row: The number of such rounds since the last one that did not fail.

    Example:
        >>> failed = FailedRounds()
        >>> [failed.are_too_many(has_failed=it) for it in (True, True, False, True, True, True)]
        [False, False, False, False, False, True]
    """

    in_a_row: int = 0

    def are_too_many(self, *, has_failed: bool) -> bool:
        """Count a round, and return whether the training must end.

        Args:
            has_failed: Whether the user's code failed on every node in this round.
        """
        self.in_a_row = self.in_a_row + 1 if has_failed else 0
        return self.in_a_row >= MOST_FAILED_ROUNDS
