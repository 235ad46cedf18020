"""The protocol of controllers."""

from typing import Literal, Protocol, TypeVar, get_args

import numpy as np

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import Fleet, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport

# What clients measure for a controller, in addition to seconds:
# - "nothing",
# - "loss": the loss and its gradient, as in Algorithm 3. They send the gradient beside the model.
# - "path": the path that their local steps take. They send a sketch of it beside the model.
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
    next round. ``Plan.rounds`` is the number of rounds that the controller expects to be played
    from now on, including the next one.

    ``dynamite_fl.testing.check_controller`` checks a controller of your own.
    """

    @property
    def measures(self) -> Measure:
        """What clients measure. The training pays for their measurements."""
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
            report: The report of the last round.
            fleet: All clients, with samples and speeds as estimated now.
            remaining: The rest of the limits.
            cohort: The indices of the next round's clients in the fleet, shape (m,).
            state: The state that the last call returned.

        Raises:
            Infeasible: The remaining limits do not allow one more round.
        """
        ...


def checked_decision(
    controller: Controller[State], decision: object, cohort: IntArray
) -> tuple[Plan, State]:
    """Return what ``start`` or ``adapt`` returned; refuse what is not a plan for this cohort.

    Args:
        controller: The controller, for messages.
        decision: The value that the controller returned.
        cohort: The places of the clients that the plan is for, (m,).

    Raises:
        InvalidInput: It is not a pair of a plan and a state, or the plan is for other clients.
    """
    name = type(controller).__name__
    if get_args(Measure).count(controller.measures) == 0:
        raise InvalidInput(
            f"{name}.measures is {controller.measures!r}: use one of {', '.join(get_args(Measure))}"
        )
    if not isinstance(decision, tuple) or len(decision) != 2 or not isinstance(decision[0], Plan):
        raise InvalidInput(f"{name} must return a Plan and its state, not {decision!r}")
    plan, state = decision
    if np.shape(plan.batch_sizes) != cohort.shape:
        raise InvalidInput(
            f"{name} planned {np.size(plan.batch_sizes)} batch sizes for {cohort.size} clients: "
            "plan for the cohort, in its order"
        )
    factors = plan.rate_factors
    if factors is not None and (
        np.shape(factors) != cohort.shape or not np.all((factors > 0) & np.isfinite(factors))
    ):
        raise InvalidInput(
            f"{name} planned rate_factors {factors!r}: they must be positive, one for each client"
        )
    return plan, state
