"""What plays rounds: simulated devices or real ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from dynamite_fl.client.client import ClientState
from dynamite_fl.client.path import Path
from dynamite_fl.records import Fleet, IntArray, Plan
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True, eq=False)
class RoundOrder:
    """A round to be played.

    Attributes:
        round_index: k, from 1.
        weights: The global model, (d,).
        plan: Local steps and the cohort's batch sizes.
        cohort: Who takes part, as places in the fleet.
        probe: Whether clients measure the loss.
        remember: Whether clients keep what a later probe compares with.
        path: Whether clients measure the path of their local steps.
        sketch: Whether clients send sketches of a probe's gradients in their place.
        begins: Seconds since training began.
        seconds_left: Who takes longer than this is absent.
    """

    round_index: int
    weights: Tensor
    plan: Plan
    cohort: IntArray
    probe: bool
    remember: bool
    path: bool
    begins: float
    seconds_left: float
    sketch: bool = False


@dataclass(frozen=True, eq=False)
class RoundOutcome:
    """What came of it.

    Attributes:
        report: For the controller.
        updates: The present clients' local models, in the cohort's order.
        paths: What their local steps showed, likewise; empty if nobody asked.
        seconds: How long the round took.
        samples: How many samples were computed on, those of absent clients included.
        sent_bytes: How much was sent, both ways.
    """

    report: RoundReport
    updates: list[Tensor]
    paths: list[Path]
    seconds: float
    samples: int
    sent_bytes: int


@dataclass(frozen=True)
class Evaluation:
    """How good a model is.

    Attributes:
        accuracy: On the test data.
        loss: On the test data.
        class_accuracy: On the test data of each class, by its label; empty without classes.
        stream_loss: On a sample of all that has arrived so far; None where data does not
            stream.
    """

    accuracy: float
    loss: float
    class_accuracy: Mapping[int, float] = field(default_factory=dict)
    stream_loss: float | None = None


class Engine(Protocol):
    """Plays rounds on a fleet of devices.

    Attributes:
        states: What clients carry from round to round, as far as it is kept here.
    """

    states: dict[int, ClientState]

    def enroll(self) -> Fleet:
        """The fleet as it presents itself: speeds are first guesses."""
        ...

    def first_weights(self) -> Tensor:
        """The global model before training, (d,)."""
        ...

    def named(self, weights: Tensor) -> dict[str, Tensor]:
        """The weights by their names and in their shapes."""
        ...

    def samples_of(self, order: RoundOrder) -> int:
        """The most samples that a round may compute on."""
        ...

    def play(self, order: RoundOrder) -> RoundOutcome:
        """Have the cohort play a round."""
        ...

    def close(self) -> None:
        """End what was started for the clients."""
        ...

    def evaluate(self, weights: Tensor, round_index: int) -> Evaluation:
        """Judge a global model after a round."""
        ...
