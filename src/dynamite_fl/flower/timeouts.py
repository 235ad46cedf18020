"""How long a server waits for nodes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeouts:
    """How long the server waits for nodes.

    Attributes:
        round_factor: The longest duration of a round, as a multiple of its planned seconds. Nodes
            that have not replied by then are absent in this round.
        min_round_seconds: The least time that nodes have for a round, whatever was planned.
        join_seconds: The longest wait for nodes to connect while too few of them are connected.
    """

    round_factor: float = 3.0
    min_round_seconds: float = 10.0
    join_seconds: float = 60.0

    def round_seconds(self, planned: float) -> float:
        """Return the seconds after which nodes that have not replied are absent in a round.

        Args:
            planned: The planned seconds of the round.

        Example:
            >>> Timeouts().round_seconds(20.0), Timeouts().round_seconds(1.0)
            (60.0, 10.0)
        """
        return max(self.round_factor * planned, self.min_round_seconds)
