"""What every controller is: frozen settings, and two functions from state to state."""

from typing import Any, Protocol

from dynamite_fl.records import Fleet, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport


class Controller(Protocol):
    """Decides local steps and batch sizes, round by round.

    A controller is a frozen dataclass of settings. What it has learned is the state that goes
    in and out: a frozen dataclass of numbers and arrays (or of such dataclasses), so that it
    can be written to a checkpoint and a resumed training goes on as if nothing had happened.

    Plans are for the next round's cohort, in its order. ``Plan.rounds`` is how many rounds
    like this one the controller expects still to fit.
    """

    @property
    def wants_probe(self) -> bool:
        """Whether clients should measure the loss; what they measure is charged."""
        ...

    def describe(self, state: Any) -> dict[str, float]:
        """What it has learned of the loss, for the history."""
        ...

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, Any]:
        """The first round's plan. The fleet's speeds and variances are first guesses."""
        ...

    def adapt(
        self, report: RoundReport, remaining: Limits, cohort: IntArray, state: Any
    ) -> tuple[Plan, Any]:
        """The next round's plan, from what the last round showed and what is left.

        Raises:
            Infeasible: Not one round more fits.
        """
        ...
