"""The engine protocol: what runs a round, on simulated or on real devices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.rate_trial import most_trial_samples
from dynamite_fl.client.step_path import StepPath
from dynamite_fl.records import Fleet, IntArray, Plan
from dynamite_fl.reports import RoundReport
from dynamite_fl.task.task import Task


@dataclass(frozen=True, eq=False)
class RoundOrder:
    """What the server asks of a cohort in one round.

    Attributes:
        round_index: The round's number k, from 1.
        weights: The global model, (d,).
        plan: The local steps and the cohort's batch sizes.
        cohort: The places of those who take part, in the fleet.
        learning_rate: The learning rate of the round's local steps.
        probe: Whether clients measure the loss.
        remember: Whether clients keep what a later probe compares with.
        path: Whether clients measure the path of their local steps.
        begins: Seconds from the start of training to the start of the round.
        seconds_left: Seconds until the deadline. A client that takes longer is absent.
        sketch: Whether clients send sketches of a probe's gradients instead of gradients.
        free_probes: Whether measurements cost nothing, neither money nor simulated time.
        rate_trial: Whether clients try learning rates, one of ``RATE_TRIALS``.
        racers: The positions in the cohort of those in whose search larger rates race.
    """

    round_index: int
    weights: Tensor
    plan: Plan
    cohort: IntArray
    learning_rate: float
    probe: bool
    remember: bool
    path: bool
    begins: float
    seconds_left: float
    sketch: bool = False
    free_probes: bool = False
    rate_trial: str = "none"
    racers: Sequence[int] = ()

    @property
    def reuses_batches(self) -> bool:
        """Whether clients begin with the last batch of their last round, to save a gradient."""
        return self.probe and not self.free_probes

    def most_samples(self, least_batch: int | None) -> int:
        """Return the most samples that local steps and trials of rates compute on.

        Args:
            least_batch: The least batch of the model; None if any will do.
        """
        sizes = self.plan.batch_sizes
        trials = [
            most_trial_samples(self.for_client(place), int(size), least_batch)
            for place, size in enumerate(sizes)
        ]
        return self.plan.local_steps * int(sizes.sum()) + sum(trials)

    def for_client(self, position: int) -> Order:
        """Return the order for one client.

        Args:
            position: The client's position in the cohort.
        """
        factors = self.plan.rate_factors
        return Order(
            client=int(self.cohort[position]),
            round_index=self.round_index,
            weights=self.weights,
            local_steps=self.plan.local_steps,
            batch_size=int(self.plan.batch_sizes[position]),
            learning_rate=self.learning_rate
            * (1.0 if factors is None else float(factors[position])),
            probe=self.probe,
            remember=self.remember,
            path=self.path,
            sketch=self.sketch,
            free_probes=self.free_probes,
            rate_trial=self.rate_trial,
            race=position in self.racers,
        )


@dataclass(frozen=True, eq=False)
class RoundOutcome:
    """What a round came to.

    Attributes:
        report: The report for the controller.
        updates: The present clients' local models, in the cohort's order.
        paths: The paths of the same clients' local steps; empty if they were not ordered.
        seconds: The seconds that the round took.
        samples: The samples that were computed on, those of absent clients included and without
            those of free measurements.
        sent_bytes: The bytes that were sent, both ways together, without free measurements.
        gradients: The number of clients that sent the gradient of a probe.
    """

    report: RoundReport
    updates: list[Tensor]
    paths: list[StepPath]
    seconds: float
    samples: int
    sent_bytes: int
    gradients: int = 0


@dataclass(frozen=True)
class Evaluation:
    """How good a model is.

    Attributes:
        loss: The mean loss on the test data.
        metrics: The metrics on the test data, by name; the first leads.
        class_accuracy: The accuracy on the test data of each class, by its label; empty if targets
            are not labels or no metric is an accuracy.
        client_metrics: The leading metric on each client's own test data; None if clients have
            none of their own.
        stream_loss: The mean loss on a sample of all that has arrived so far; None where data does
            not stream in.
    """

    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    class_accuracy: Mapping[int, float] = field(default_factory=dict)
    client_metrics: tuple[float, ...] | None = None
    stream_loss: float | None = None


@dataclass(frozen=True)
class ModelSize:
    """How many numbers are sent.

    Attributes:
        numbers: The numbers of a model: its trained weights, and its buffers after them.
        trained: The number of trained weights.
        path_sketches: The number of sketches that describe a path: one with plain SGD, two with
            other optimisers.
    """

    numbers: int
    trained: int
    path_sketches: int = 1

    @staticmethod
    def of(model: FlatModel, optimizer: Optimizer) -> "ModelSize":
        """Return the size of a model that is trained with an optimiser."""
        return ModelSize(len(model), model.trained, 1 if optimizer.is_plain else 2)


class Engine(Protocol):
    """Runs rounds on a fleet of devices.

    Attributes:
        task: The model, the loss and the data.
        size: How many numbers a model and its measurements have.
        states: The states of clients, by their places in the fleet, as far as the engine keeps
            them.
    """

    task: Task
    size: ModelSize
    states: dict[int, ClientState]

    def enroll(self) -> Fleet:
        """Return the fleet as it presents itself; its speeds are first guesses."""
        ...

    def first_weights(self) -> Tensor:
        """Return the global model before training, (d,)."""
        ...

    def state_dict(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the whole state of the model with these weights, by names."""
        ...

    def most_samples(self, order: RoundOrder) -> int:
        """Return the most samples that a round may compute on."""
        ...

    def run_round(self, order: RoundOrder) -> RoundOutcome:
        """Let the cohort train for one round."""
        ...

    def evaluate(self, weights: Tensor, round_index: int) -> Evaluation:
        """Evaluate a global model after a round."""
        ...

    def close(self) -> None:
        """Release the processes and connections that the engine holds."""
        ...
