"""No-straggler: batch sizes in proportion to speed, so that all clients finish together.

Z. Ma, Y. Xu, H. Xu, Z. Meng, L. Huang, Y. Xue: Adaptive Batch Size for Federated Learning in
Resource-Constrained Edge Computing. IEEE Transactions on Mobile Computing, 2021.
"""

from dataclasses import dataclass

import numpy as np

from dynamite_fl.control.controller import Measure
from dynamite_fl.control.rounds import repeated
from dynamite_fl.control.settings import require_memory, require_whole
from dynamite_fl.control.system import MEMORY, System, as_fleet, first_guess, update
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True, kw_only=True)
class NoStraggler:
    """s_i = floor(N s p_i / sum_j p_j) at fixed local steps, with speeds as estimated.

    Its state is the system. The learning rate eta s_i / s that the authors allow for is left
    out: all controllers train with the same one.

    Attributes:
        local_steps: tau.
        batch_size: s, the mean over the clients of a round.
        memory: What a measured time counts one round later.
    """

    local_steps: int = 2
    batch_size: int = 60
    memory: float = MEMORY

    def __post_init__(self) -> None:
        require_whole("local_steps", self.local_steps)
        require_whole("batch_size", self.batch_size)
        require_memory(self.memory)

    @property
    def measures(self) -> Measure:
        """Nothing: nothing depends on the loss."""
        return "nothing"

    def describe(self, state: System) -> dict[str, float]:  # noqa: ARG002  a controller takes it
        """Nothing: it learns nothing of the loss."""
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, System]:
        """Batch sizes by the speeds as guessed."""
        system = first_guess(fleet)
        return self._plan(as_fleet(system, cohort, name=fleet.name), limits), system

    def adapt(
        self, report: RoundReport, remaining: Limits, cohort: IntArray, state: System
    ) -> tuple[Plan, System]:
        """Batch sizes by the speeds as now estimated."""
        system = update(state, report, self.memory)
        return self._plan(as_fleet(system, cohort), remaining), system

    def _plan(self, fleet: Fleet, limits: Limits) -> Plan:
        sizes = in_proportion(fleet.samples_per_second, len(fleet) * self.batch_size)
        return repeated(fleet, limits, self.local_steps, sizes)


def in_proportion(speeds: FloatArray, total: int) -> FloatArray:
    """The total split by speed, rounded down; infinite speeds share it alone, (n,).

    Example:
        >>> in_proportion(np.array([90.0, 210.0, 250.0]), 180)  # 29.5, 68.7, 81.8
        array([29., 68., 81.])
    """
    unlimited = np.isinf(speeds)
    weights = unlimited.astype(np.float64) if unlimited.any() else speeds
    # A share that is whole but for a rounding error stays whole.
    return np.asarray(np.floor(total * weights / weights.sum() + 1e-9))
