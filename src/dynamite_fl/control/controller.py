"""What every controller is: frozen settings, and two functions from state to state."""

from typing import Any, Literal, Protocol

from dynamite_fl.records import Fleet, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport

# What clients measure: the loss as in Algorithm 3, which sends a gradient beside the model, or the
# path that their local steps take, which sends a sketch of it.
Measure = Literal["nothing", "loss", "path"]


class Controller(Protocol):
    """Decides local steps and batch sizes, round by round.

    A controller is a frozen dataclass of settings. What it has learned is the state that goes
    in and out: a frozen dataclass of numbers and arrays (or of such dataclasses), so that it
    can be written to a checkpoint and a resumed training goes on as if nothing had happened.

    Plans are for the next round's cohort, in its order. ``Plan.rounds`` is how many rounds
    like this one the controller expects still to fit.
    """

    @property
    def measures(self) -> Measure:
        """What clients should measure; it is charged like all work and traffic."""
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
