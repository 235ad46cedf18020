"""Uniform: one batch size for all, set before training by what the limits allow.

The paper's baseline for batch sizes that differ; the batch size is Theorem 2's at given local
steps.
"""

from dataclasses import dataclass

from dynamite_fl.control.controller import Measure
from dynamite_fl.control.rounds import largest_batch, repeated
from dynamite_fl.control.settings import require_memory, require_whole
from dynamite_fl.control.system import MEMORY, System, as_fleet, first_guess, update
from dynamite_fl.records import Fleet, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True, eq=False)
class UniformState:
    """The batch size found at the start, and the system to foresee whether a round fits."""

    batch_size: int
    system: System


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """The largest batch size for which all rounds fit, then kept.

    Attributes:
        local_steps: tau.
        batch_size: s where the rounds are open: Theorem 2 needs them.
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

    def describe(self, state: UniformState) -> dict[str, float]:  # noqa: ARG002  a controller takes it
        """Nothing: it learns nothing of the loss."""
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, UniformState]:
        """Theorem 2's batch size; one sample where not all rounds fit."""
        system = first_guess(fleet)
        guess = as_fleet(system, cohort, name=fleet.name)
        size = self.batch_size
        if limits.rounds is not None:
            steps = min(self.local_steps, limits.max_local_steps)
            size = max(1, largest_batch(guess, limits, limits.rounds, steps))
        return repeated(guess, limits, self.local_steps, size), UniformState(size, system)

    def adapt(
        self, report: RoundReport, remaining: Limits, cohort: IntArray, state: UniformState
    ) -> tuple[Plan, UniformState]:
        """The same again."""
        state = UniformState(state.batch_size, update(state.system, report, self.memory))
        fleet = as_fleet(state.system, cohort)
        return repeated(fleet, remaining, self.local_steps, state.batch_size), state
