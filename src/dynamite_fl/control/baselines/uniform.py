"""Uniform: one batch size for all clients, chosen before training as large as the limits allow.

It is the paper's baseline for batch sizes that differ between clients. The batch size is that of
Theorem 2 at given local steps.
"""

from dataclasses import dataclass

from dynamite_fl._validate import check_whole
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.fitting import constant_plan, largest_batch
from dynamite_fl.records import Fleet, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True)
class UniformState:
    """The batch size that was chosen at the start."""

    batch_size: int


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Keeps the largest batch size with which all rounds fit.

    Attributes:
        local_steps: The local steps of a round (tau).
        batch_size: s, the batch size if the limits do not give the rounds, which Theorem 2 needs.
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

    def describe(self, _state: UniformState) -> dict[str, float]:
        """Return no numbers, because nothing is learned about the loss."""
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, UniformState]:
        """Plan the batch size of Theorem 2, or the least batch if not all rounds fit."""
        clients = fleet.subset(cohort)
        size = self.batch_size
        if limits.rounds is not None:
            steps = min(self.local_steps, limits.max_local_steps)
            size = max(
                int(clients.least_batches.max()),
                largest_batch(clients, limits, limits.rounds, steps),
            )
        return constant_plan(clients, limits, self.local_steps, size), UniformState(size)

    def adapt(
        self,
        _report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: UniformState,
    ) -> tuple[Plan, UniformState]:
        """Plan the same again."""
        clients = fleet.subset(cohort)
        return constant_plan(clients, remaining, self.local_steps, state.batch_size), state
