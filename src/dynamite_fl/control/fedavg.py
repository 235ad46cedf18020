"""FedAvg: the same local steps and batch size throughout.

B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agüera y Arcas: Communication-Efficient Learning
of Deep Networks from Decentralized Data. AISTATS 2017.
"""

from dataclasses import dataclass

from dynamite_fl.control.controller import Measure
from dynamite_fl.control.rounds import repeated
from dynamite_fl.control.settings import require_memory, require_whole
from dynamite_fl.control.system import MEMORY, System, as_fleet, first_guess, update
from dynamite_fl.records import Fleet, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True, kw_only=True)
class FedAvg:
    """Given local steps and batch size until the rounds or a limit end it.

    The defaults are the paper's. A client of less data uses all it has. Its state is the
    system, timed only to foresee whether one round more fits.

    Attributes:
        local_steps: tau.
        batch_size: s.
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
        """The given local steps and batch size."""
        system = first_guess(fleet)
        guess = as_fleet(system, cohort, name=fleet.name)
        return repeated(guess, limits, self.local_steps, self.batch_size), system

    def adapt(
        self, report: RoundReport, remaining: Limits, cohort: IntArray, state: System
    ) -> tuple[Plan, System]:
        """The same again."""
        system = update(state, report, self.memory)
        fleet = as_fleet(system, cohort)
        return repeated(fleet, remaining, self.local_steps, self.batch_size), system
