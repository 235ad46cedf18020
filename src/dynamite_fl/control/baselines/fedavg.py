"""FedAvg: the same local steps and batch size in every round.

B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agüera y Arcas: Communication-Efficient Learning
of Deep Networks from Decentralized Data. AISTATS 2017.
"""

from dataclasses import dataclass

from dynamite_fl._validate import check_whole
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.fitting import constant_plan
from dynamite_fl.records import Fleet, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True, kw_only=True)
class FedAvg:
    """Uses the given local steps and batch size until a limit ends the training.

    A client with less data uses all it has. The defaults are the paper's.

    Attributes:
        local_steps: The local steps of a round (tau).
        batch_size: s, the samples of each client in a local step.
    """

    local_steps: int = 2
    batch_size: int = 60

    def __post_init__(self) -> None:
        check_whole("local_steps", self.local_steps)
        check_whole("batch_size", self.batch_size)

    @property
    def measures(self) -> Measure:
        """Nothing."""
        return "nothing"

    def describe(self, _state: None) -> dict[str, float]:
        """Return no numbers, because FedAvg learns none."""
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, None]:
        """Plan the given local steps and batch size."""
        clients = fleet.subset(cohort)
        return constant_plan(clients, limits, self.local_steps, self.batch_size), None

    def adapt(
        self,
        _report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        _state: None,
    ) -> tuple[Plan, None]:
        """Plan the same again."""
        return self.start(fleet, remaining, cohort)
