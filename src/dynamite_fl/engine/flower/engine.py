"""Real devices, reached over Flower, in real time."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from flwr.app import RecordDict
from torch import Tensor

from dynamite_fl.client.client import ClientState, Order, ProbeSettings, Reply
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.control.system import filled
from dynamite_fl.engine.collect import collect
from dynamite_fl.engine.engine import Evaluation, RoundOrder, RoundOutcome
from dynamite_fl.engine.evaluate import evaluate
from dynamite_fl.engine.flower.message import (
    TRAIN,
    Origin,
    Work,
    check_path,
    checked_reply,
    from_content,
    to_content,
)
from dynamite_fl.engine.flower.parcel import Malformed
from dynamite_fl.engine.flower.post import Arrival, Grid, Letter, Post
from dynamite_fl.engine.flower.roster import Roster
from dynamite_fl.records import Fleet, FloatArray
from dynamite_fl.reports import RoundReport
from dynamite_fl.task.task import Task

_log = logging.getLogger(__name__)
_LOOK = 0.02  # seconds between looks for devices while too few are there


class TooFewNodes(ValueError):  # noqa: N818  it says what is wrong
    """Fewer devices than are needed, for longer than one waits."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for whom.

    Attributes:
        factor: How many times its planned seconds a round may take before those who are not
            done are absent.
        least_seconds: But never less than this.
        join_seconds: How long to wait for devices to come while there are too few.
        least_nodes: How many are needed for a round.
        most_samples: How many samples a device can believably hold; who claims more is refused,
            as it would have the average to itself.
    """

    factor: float = 3.0
    least_seconds: float = 10.0
    join_seconds: float = 60.0
    least_nodes: int = 1
    most_samples: int = 10_000_000


@dataclass(frozen=True, eq=False)
class _Answer:
    """What a device made of its order."""

    reply: Reply
    work: Work
    comm_seconds: float


@dataclass(eq=False)
class FlowerEngine:
    """An engine whose devices are nodes of a Flower Grid that run our ClientApp.

    Attributes:
        grid: How to reach them.
        task: What is learned; the test data are used, the training data are the devices' own.
        places: How many devices there are.
        learning_rate: eta.
        seed: Of the first weights.
        names_file: Where the devices' names are kept, for a resume.
        registered: The names that nodes must have, where their keys say so.
        patience: How long to wait for whom.
        settings: How M_i is measured, as devices do it.
        states: Empty: devices keep their own.
    """

    grid: Grid
    task: Task
    places: int
    learning_rate: float
    seed: int = 0
    names_file: Path | None = None
    registered: Mapping[int, str] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)
    settings: ProbeSettings = field(default_factory=ProbeSettings)
    states: dict[int, ClientState] = field(default_factory=dict, init=False)
    _since: float | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.model = FlatModel(self.task, self.seed)
        self._post = Post(self.grid)
        self.roster = Roster(
            self._post, self.places, self.names_file, self.patience.most_samples, self.registered
        )
        self._samples = np.full(self.places, np.nan)
        self._batches: dict[int, int] = {}

    def enroll(self) -> Fleet:
        """Wait for the devices, and take what they say of themselves as first guesses.

        Raises:
            TooFewNodes: Fewer came than are needed for a round.
        """
        self._wait(self.places, self.patience.join_seconds)
        if len(self.roster.guests) < self.patience.least_nodes:
            raise self._too_few()
        self.roster.settle()
        here = np.isin(np.arange(self.places), list(self.roster.guests))
        speed, comm = np.ones(self.places), np.zeros(self.places)
        for place, guest in self.roster.guests.items():
            self._samples[place] = guest.about.samples
            speed[place], comm[place] = guest.about.samples_per_second, guest.comm_seconds
        return Fleet(
            samples=self._known_samples(),
            gradient_variance=1.0,
            samples_per_second=filled(speed, here),
            comm_seconds=filled(comm, here),
            name=self._labels(),
        )

    def first_weights(self) -> Tensor:
        """The global model before training, (d,)."""
        return self.model.first_weights.clone()

    def named(self, weights: Tensor) -> dict[str, Tensor]:
        """The weights by their names and in their shapes."""
        return self.model.named(weights)

    def samples_of(self, order: RoundOrder) -> int:
        """The most samples that a round may compute on, measuring M_i anew included."""
        samples = order.plan.local_steps * int(order.plan.batch_sizes.sum())
        if order.probe:
            for place, size in zip(order.cohort, order.plan.batch_sizes, strict=True):
                samples += max(self._batches.get(int(place), 0) - int(size), 0)
            most = self.settings.variance_samples + self.settings.drift_samples
            samples += len(order.cohort) * most
        return samples

    def close(self) -> None:
        """Nothing was started here: devices and Grid belong to others."""

    def evaluate(self, weights: Tensor, round_index: int) -> Evaluation:  # noqa: ARG002
        """Accuracy and loss on the test data; what has reached the devices stays there."""
        return evaluate(self.model, weights)

    def play(self, order: RoundOrder) -> RoundOutcome:
        """Have those devices of the cohort play a round that are here.

        A round lasts from the end of the one before it, so that what the server does between
        rounds counts too.

        Raises:
            TooFewNodes: Fewer are here than are needed, and no others came.
        """
        began = time.monotonic() if self._since is None else self._since
        ends = began + order.seconds_left
        asked = self._here(order, ends)
        timeout = max(min(self._timeout(order), ends - time.monotonic()), 0.0)
        letters = [Letter(node, self._order(order, place)) for place, node in asked.items()]
        arrived = self._post.ask(letters, TRAIN, str(order.round_index), timeout)
        answers = {
            place: answer
            for place, node in asked.items()
            if (answer := self._answer(order, place, arrived.get(node))) is not None
        }
        self._since = time.monotonic()
        seconds = min(self._since - began, order.seconds_left)
        return self._outcome(order, list(asked), answers, seconds)

    def _here(self, order: RoundOrder, ends: float) -> dict[int, int]:
        """The nodes of those of the cohort that are here, by place; waits if too few are."""
        self.roster.look()
        least = min(self.patience.least_nodes, len(order.cohort))
        if len(self._present(order)) < least:
            patience = min(self.patience.join_seconds, ends - time.monotonic())
            self._wait(self.patience.least_nodes, patience)
            if len(self._present(order)) < least and time.monotonic() < ends:
                raise self._too_few()
        return self._present(order)

    def _present(self, order: RoundOrder) -> dict[int, int]:
        guests = self.roster.guests
        return {int(place): guests[place].node for place in order.cohort if place in guests}

    def _wait(self, count: int, seconds: float) -> None:
        """Until so many devices are here, or for so long."""
        ends = time.monotonic() + seconds
        self.roster.look()
        while len(self.roster.guests) < count and time.monotonic() < ends:
            time.sleep(_LOOK)
            self.roster.look()

    def _too_few(self) -> TooFewNodes:
        here, least = len(self.roster.guests), self.patience.least_nodes
        return TooFewNodes(
            f"{here} of at least {least} nodes are here after {self.patience.join_seconds:g} s of "
            "waiting: start more of them, and go on from the run's folder"
        )

    def _timeout(self, order: RoundOrder) -> float:
        planned = order.plan.seconds / order.plan.rounds
        return max(self.patience.factor * planned, self.patience.least_seconds)

    def _order(self, order: RoundOrder, place: int) -> RecordDict:
        (where,) = np.flatnonzero(order.cohort == place)
        own = Order(
            client=place,
            round_index=order.round_index,
            weights=order.weights,
            local_steps=order.plan.local_steps,
            batch_size=int(order.plan.batch_sizes[where]),
            learning_rate=self.learning_rate,
            probe=order.probe,
            remember=order.remember,
            path=order.path,
            sketch=order.sketch,
        )
        return to_content(order=own, origin=Origin(self.roster.training))

    def _answer(self, order: RoundOrder, place: int, arrival: Arrival | None) -> _Answer | None:
        """What a device replied; None if it is absent, which is noted."""
        if arrival is None or not arrival.alive:
            self.roster.lose(place, "it did not answer in time")
            return None
        try:
            if arrival.fault is not None:
                raise Malformed(arrival.fault)
            reply = from_content(arrival.message.content, "reply", Reply)
            work = from_content(arrival.message.content, "work", Work)
            most = self.patience.most_samples
            reply = checked_reply(
                reply, work, self.model.first_weights, most, sketched=order.sketch
            )
            check_path(reply, asked=order.path)
        except Malformed as error:
            _log.warning("%s is refused: %s", self.roster.names[place], error)
            return None
        self._samples[place] = reply.samples
        return _Answer(reply, work, max(arrival.seconds - work.seconds, 0.0))

    def _outcome(
        self, order: RoundOrder, asked: list[int], answers: dict[int, _Answer], seconds: float
    ) -> RoundOutcome:
        found = [answers.get(int(place)) for place in order.cohort]
        sizes = zip(order.cohort, order.plan.batch_sizes, strict=True)
        computed = 0
        for (place, size), answer in zip(sizes, found, strict=True):
            if answer is not None:
                computed += answer.work.computed + answer.reply.measured_samples
                self._batches[int(place)] = int(size)
            elif int(place) in asked:  # it may have computed all of it
                computed += order.plan.local_steps * int(size)
        replies = [None if answer is None else answer.reply for answer in found]
        return RoundOutcome(
            report=self._report(order, found, replies),
            updates=[reply.weights for reply in replies if reply is not None],
            paths=[reply.path for reply in replies if reply is not None and reply.path is not None],
            seconds=seconds,
            samples=min(computed, self.samples_of(order)),
            sent_bytes=self._bytes(len(asked), replies),
        )

    def _bytes(self, asked: int, replies: Sequence[Reply | None]) -> int:
        """Of models that went out, and of models, gradients and sketches that came back."""
        came = [reply for reply in replies if reply is not None]
        weights = self.model.first_weights
        numbers = (asked + len(came)) * weights.numel()
        numbers += sum(reply.gradient.numel() for reply in came if reply.gradient is not None)
        numbers += sum(reply.path.head.numel() for reply in came if reply.path is not None)
        return numbers * weights.element_size()

    def _report(
        self,
        order: RoundOrder,
        answers: Sequence[_Answer | None],
        replies: Sequence[Reply | None],
    ) -> RoundReport:
        samples = np.array([np.nan if reply is None else reply.samples for reply in replies])
        return RoundReport(
            round_index=order.round_index,
            clients=order.cohort,
            local_steps=order.plan.local_steps,
            batch_sizes=order.plan.batch_sizes,
            present=np.array([answer is not None for answer in answers]),
            samples=samples,
            step_seconds=np.array([a.work.step_seconds if a else np.nan for a in answers]),
            comm_seconds=np.array([a.comm_seconds if a else np.nan for a in answers]),
            probe=collect(replies, samples) if order.probe else None,
        )

    def _known_samples(self) -> FloatArray:
        """How many samples each device holds, or the median of those who said."""
        return np.ceil(filled(self._samples, np.isfinite(self._samples)))

    def _labels(self) -> list[str]:
        names = self.roster.names
        return [*names, *(f"place {place}" for place in range(len(names), self.places))]
