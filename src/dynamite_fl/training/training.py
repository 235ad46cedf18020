"""What a training consists of: the engine, the controller, the limits and all other settings."""

from dataclasses import dataclass, field
from typing import Any

from dynamite_fl.control.controller import Controller
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.training.averaging import Averaging, Mean
from dynamite_fl.training.cohort import Selection
from dynamite_fl.training.engine import Engine
from dynamite_fl.training.private_mechanism import Mechanism
from dynamite_fl.training.private_rules import with_private_rounds
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.server_optimizer import Average, ServerOptimizer


@dataclass(frozen=True)
class Schedule:
    """Which clients take part in a round, and in which rounds there are evaluations and probes.

    Attributes:
        selection: How the clients of a round are drawn.
        evaluate_every: The number of rounds from one evaluation to the next. The last round is
            always evaluated.
        probe_every: The number of rounds from one probe to the next.
        free_probes: Whether measurements for the controller cost nothing, as in the paper's
            experiments: neither money nor, on simulated devices, time. Clients then follow
            Algorithm 3 to the letter, and save no gradients.
        sketches: Whether clients send a sketch of a probe's gradient instead of the gradient.
        seed: The seed of everything that is drawn at random.
    """

    selection: Selection = field(default_factory=Selection)
    evaluate_every: int = 1
    probe_every: int = 1
    free_probes: bool = False
    sketches: bool = False
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Training:
    """Everything that a training consists of.

    Attributes:
        engine: Runs rounds, on simulated or on real devices.
        controller: Decides the local steps and batch sizes of each round.
        limits: The limits of the whole training.
        schedule: Says which clients take part, and when there are evaluations and probes.
        fleet: The devices before the first round. Their speeds are first guesses.
        learning_rate: The learning rate of each round; None if it is to be chosen.
        server: How the server turns averages into global models.
        averaging: How the local models of a round are averaged.
        privacy: Protects what clients contribute; None for no differential privacy.
    """

    engine: Engine
    controller: Controller[Any]
    limits: Limits
    schedule: Schedule
    fleet: Fleet
    learning_rate: RateSchedule | None
    server: ServerOptimizer = field(default_factory=Average)
    averaging: Averaging = field(default_factory=Mean)
    privacy: Mechanism | None = None

    @property
    def planned_limits(self) -> Limits:
        """The limits with no more rounds than ``epsilon`` allows."""
        if self.privacy is None:
            return self.limits
        return with_private_rounds(self.limits, self.privacy, self.privacy.first_state())
