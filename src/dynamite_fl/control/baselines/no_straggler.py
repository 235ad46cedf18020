"""No-straggler: batch sizes in proportion to speed, so that all clients finish together.

Z. Ma, Y. Xu, H. Xu, Z. Meng, L. Huang, Y. Xue: Adaptive Batch Size for Federated Learning in
Resource-Constrained Edge Computing. IEEE Transactions on Mobile Computing, 2021.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynamite_fl._validate import check_whole
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.fitting import constant_plan
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True, kw_only=True)
class NoStraggler:
    """Uses s_i = floor(N s p_i / sum_j p_j) with the estimated speeds, at fixed local steps.

    Attributes:
        local_steps: The local steps of a round (tau).
        batch_size: s, the mean batch size of the clients in a round.
        scale_rate: Whether each client has a learning rate of eta s_i / s, in proportion to its
            batch size, as the authors propose.
    """

    local_steps: int = 2
    batch_size: int = 60
    scale_rate: bool = False

    def __post_init__(self) -> None:
        check_whole("local_steps", self.local_steps)
        check_whole("batch_size", self.batch_size)
        if not isinstance(self.scale_rate, bool):
            raise InvalidInput(f"scale_rate is {self.scale_rate!r}: use true or false")

    @property
    def measures(self) -> Measure:
        """Nothing."""
        return "nothing"

    def describe(self, _state: None) -> dict[str, float]:
        """Return no numbers, because nothing is learned about the loss."""
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, None]:
        """Plan batch sizes in proportion to the speeds."""
        clients = fleet.subset(cohort)
        shares = in_proportion(clients.samples_per_second, len(clients) * self.batch_size)
        sizes = np.maximum(shares, clients.least_batches)
        plan = constant_plan(clients, limits, self.local_steps, sizes)
        if self.scale_rate:
            plan = replace(plan, rate_factors=plan.batch_sizes / self.batch_size)
        return plan, None

    def adapt(
        self,
        _report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        _state: None,
    ) -> tuple[Plan, None]:
        """Plan batch sizes in proportion to the speeds as estimated now."""
        return self.start(fleet, remaining, cohort)


def in_proportion(speeds: FloatArray, total: int) -> FloatArray:
    """Split a total in proportion to speeds, rounded down, shape (n,).

    If some speeds are infinite, these clients share all of it.

    Example:
        >>> in_proportion(np.array([90.0, 210.0, 250.0]), 180)  # 29.5, 68.7, 81.8
        array([29., 68., 81.])
    """
    unlimited = np.isinf(speeds)
    weights = unlimited.astype(np.float64) if unlimited.any() else speeds
    # The 1e-9 keeps a share whole that is below a whole number by a rounding error only.
    return np.asarray(np.floor(total * weights / weights.sum() + 1e-9))
