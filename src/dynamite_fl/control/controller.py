"""The protocol of controllers."""

from typing import Literal, Protocol, TypeVar

from dynamite_fl.records import Fleet, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport

# What clients measure for a controller, in addition to seconds: nothing; the loss, as in Algorithm
# 3, for which they send a gradient beside the model; or the path of their local steps, for which
# they send a sketch of it.
Measure = Literal["nothing", "loss", "path"]

State = TypeVar("State")


class Controller(Protocol[State]):
    """Decides the local steps and batch sizes of every round.

    A controller is a frozen dataclass of settings. What it has learned is its state, which the
    training loop keeps and passes back. A state is None or a frozen dataclass of numbers, text,
    arrays, tuples and such dataclasses, so that it can be written to a checkpoint and a resumed
    training continues exactly.

    The loop also estimates how fast clients are. Every call receives the whole fleet with the
    current estimates of samples and speeds. Plan for ``fleet.subset(cohort)``, the clients of the
    next round. ``Plan.rounds`` is the number of such rounds that the controller expects to follow.

    ``dynamite_fl.testing.check_controller`` checks a controller of your own.
    """

    @property
    def measures(self) -> Measure:
        """What clients measure. The training is charged for its work and traffic."""
        ...

    def describe(self, state: State, /) -> dict[str, float]:
        """Return the learned numbers to show in the history, by name."""
        ...

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray, /) -> tuple[Plan, State]:
        """Plan the first round.

        Args:
            fleet: All clients. Speeds and gradient variances are first guesses.
            limits: The limits of the whole training.
            cohort: The indices of the first round's clients in the fleet, shape (m,).

        Raises:
            Infeasible: The limits do not allow one round.
        """
        ...

    def adapt(
        self,
        report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: State,
        /,
    ) -> tuple[Plan, State]:
        """Plan the next round.

        Args:
            report: What the last round showed.
            fleet: All clients, with samples and speeds as estimated now.
            remaining: What is left of the limits.
            cohort: The indices of the next round's clients in the fleet, shape (m,).
            state: The state that the last call returned.

        Raises:
            Infeasible: The remaining limits do not allow one more round.
        """
        ...
