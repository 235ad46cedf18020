"""Algorithm 3: a client's round.

A round has three parts: ``begin_round`` takes in the samples that have arrived and draws the
batches, ``take_local_steps`` (``local_steps.py``) trains from the global model, and
``Client.reply`` measures what the server asks for. Executors (``executors/``) differ only in how
they compute local steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from dynamite_fl._random import client_stream
from dynamite_fl.client.batches import BATCHES, DRIFT, VARIANCE, draw_batches
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_steps import (
    AutogradSteps,
    StepComputer,
    StepResults,
    take_local_steps,
)
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.probe import ProbeMemory, ProbeSettings, measure
from dynamite_fl.client.sketch import sketch
from dynamite_fl.errors import NoSampleYet
from dynamite_fl.records import IntArray
from dynamite_fl.stream.buffer import Buffer


class IncomingSamples(Protocol):
    """The samples that arrive at a client while it trains."""

    def receive(
        self, round_index: int, buffer: Buffer | None, needed: IntArray
    ) -> tuple[Buffer, IntArray]:
        """Take in the samples that have arrived when a round begins.

        Args:
            round_index: The number of the round.
            buffer: The buffer after the client's last round; None before its first round.
            needed: Rows that must keep their samples even if they leave the buffer.

        Returns:
            The buffer when the round begins, and the rows in it that are new.
        """
        ...


@dataclass(frozen=True, eq=False)
class NewSamples:
    """The samples that have arrived since a client's last round.

    Attributes:
        rows: The rows of the new samples that were stored.
        share: The number of new samples, stored or not, divided by the number of all samples that
            have arrived so far.
    """

    rows: IntArray
    share: float


@dataclass(frozen=True, eq=False)
class Client:
    """A device with its data.

    Attributes:
        model: The model that is trained.
        inputs: The inputs that ``indices`` or the rows of the buffer point into.
        targets: The targets that ``indices`` or the rows of the buffer point into.
        indices: The rows of the client's samples if it has all of them from the start.
        seed: The seed of the training.
        settings: The settings of a probe.
        incoming: The samples that arrive while the client trains; None if it has all of them from
            the start. With it, ``indices`` is not used.
    """

    model: FlatModel
    inputs: Tensor
    targets: Tensor
    indices: IntArray
    seed: int
    settings: ProbeSettings = field(default_factory=ProbeSettings)
    incoming: IncomingSamples | None = None

    def run_round(
        self, order: Order, state: ClientState, steps: StepComputer | None = None
    ) -> Reply:
        """Run a round of this client alone.

        Args:
            order: The server's order.
            state: The client's state after its last round.
            steps: Computes the local steps. Default: ``autograd_steps()``.
        """
        started = begin_round(self, order, state)
        return finish_rounds([started], steps or self.autograd_steps())[0]

    def autograd_steps(self) -> AutogradSteps:
        """Return what computes this client's local steps for any model."""
        return AutogradSteps(self.model, self.inputs, self.targets)

    def rows(self, state: ClientState) -> IntArray:
        """Return the rows of the samples that batches are drawn from."""
        return self.indices if state.buffer is None else state.buffer.rows

    def batches(self, order: Order, state: ClientState) -> list[IntArray]:
        """Draw a batch for each local step; a probe begins with the batch that it compares with."""
        rows = self.rows(state)
        sizes = [min(order.batch_size, rows.size)] * order.local_steps
        stream = client_stream(self.seed, order.client, order.round_index, BATCHES)
        batches = [rows[places] for places in draw_batches(stream, rows.size, sizes)]
        memory = state.memory_for_probe(probe=order.probe, local_steps=order.local_steps)
        if memory is not None:
            batches[0] = memory.batch
        return batches

    def with_arrivals(self, order: Order, state: ClientState) -> tuple[ClientState, NewSamples]:
        """Take in the samples that have arrived.

        Raises:
            NoSampleYet: The client has no sample to learn from.
        """
        if self.incoming is None:
            return state, NewSamples(self.indices[:0], 0.0)
        needed = self.indices[:0] if state.memory is None else state.memory.batch
        buffer, new_rows = self.incoming.receive(order.round_index, state.buffer, needed)
        if not buffer.rows.size:
            raise NoSampleYet(f"client {order.client} has no sample in round {order.round_index}")
        seen_before = 0 if state.buffer is None else state.buffer.seen
        share = (buffer.seen - seen_before) / buffer.seen
        return replace(state, buffer=buffer), NewSamples(new_rows, share)

    def reply(self, started: "StartedRound", results: StepResults, steps: StepComputer) -> Reply:
        """Measure what the order asks for, and return the reply with the new state."""
        order, state = started.order, started.state
        reply = Reply(
            weights=results.weights,
            samples=self.indices.size if state.buffer is None else state.buffer.seen,
            figures=None,
            gradient=None,
            gradient_variance=None,
            measured_samples=0,
            state=ClientState(buffer=state.buffer),
            path=results.path,
        )
        if results.memory is None:
            return reply
        if not order.probe:
            memory = _with_loss_of_last_probe(results.memory, state.memory)
            return replace(reply, state=replace(state, memory=memory, memory_is_used_up=False))
        return self._with_probe(reply, started, results, results.memory, steps)

    def _with_probe(
        self,
        reply: Reply,
        started: "StartedRound",
        results: StepResults,
        memory: ProbeMemory,
        steps: StepComputer,
    ) -> Reply:
        """Return the reply with the measurements of Algorithm 3, lines 8-10, and with M_i."""
        order, state = started.order, started.state
        compared = state.memory_for_probe(probe=True, local_steps=order.local_steps)
        figures, gradient, drift, drift_samples = None, None, math.nan, 0
        if compared is not None and results.gradient is not None:
            gradient = results.gradient
            drift, drift_samples = self._drift(started, memory.first_loss)
            figures = measure(compared, order.weights, memory.first_loss, gradient, drift)
        rise = self._loss_rise(state, memory.first_loss) + (0.0 if math.isnan(drift) else drift)
        variance, variance_samples = state.gradient_variance, 0
        if variance is None or rise > self.settings.loss_rise:
            rows = self._rows_for_variance(order, state)
            variance, variance_samples = steps.gradient_variance(order.weights, rows), rows.size
        used_up = compared is not None and order.local_steps == 1
        return replace(
            reply,
            figures=figures,
            gradient=sketch(gradient) if order.sketch and gradient is not None else gradient,
            gradient_variance=variance,
            measured_samples=drift_samples + variance_samples,
            state=ClientState(memory, variance, state.buffer, used_up),
        )

    def _drift(self, started: "StartedRound", loss: float) -> tuple[float, int]:
        """Measure psi_i of Lemma 1, and return it with the number of samples used.

        New samples change the loss of all samples by their share times the difference between
        their loss and the loss before. The loss before is that of the last round's batch.
        """
        if self.incoming is None:
            return math.nan, 0
        new, order = started.new_samples, started.order
        if not new.rows.size:
            return 0.0, 0
        stream = client_stream(self.seed, order.client, order.round_index, DRIFT)
        size = min(self.settings.drift_samples, new.rows.size)
        rows = new.rows[draw_batches(stream, new.rows.size, [size])[0]]
        with torch.no_grad():
            inputs, targets = self.autograd_steps().samples(rows)
            new_loss = float(self.model.loss(order.weights, inputs, targets))
        return new.share * (new_loss - loss), size

    def _loss_rise(self, state: ClientState, loss: float) -> float:
        """Return by how much the loss has risen since the last probe; small batches count less."""
        if state.memory is None:
            return 0.0
        trust = min(1.0, math.sqrt(state.memory.batch.size / self.settings.rise_samples))
        return trust * (loss - state.memory.first_loss)

    def _rows_for_variance(self, order: Order, state: ClientState) -> IntArray:
        """Draw the samples that M_i is measured on."""
        stream = client_stream(self.seed, order.client, order.round_index, VARIANCE)
        rows = self.rows(state)
        size = min(self.settings.variance_samples, rows.size)
        return rows[draw_batches(stream, rows.size, [size])[0]]


@dataclass(frozen=True, eq=False)
class StartedRound:
    """A client's round that has begun: samples have arrived and batches are drawn.

    Attributes:
        client: The client.
        order: The server's order.
        state: The client's state with the samples that have arrived.
        new_samples: The samples that have arrived since the client's last round.
        batches: The rows of the batch of each local step.
    """

    client: Client
    order: Order
    state: ClientState
    new_samples: NewSamples
    batches: list[IntArray]


def begin_round(client: Client, order: Order, state: ClientState) -> StartedRound:
    """Take in the samples that have arrived, and draw the batches of the round.

    Raises:
        NoSampleYet: The client has no sample to learn from.
    """
    state, new_samples = client.with_arrivals(order, state)
    return StartedRound(client, order, state, new_samples, client.batches(order, state))


def finish_rounds(rounds: Sequence[StartedRound], steps: StepComputer) -> list[Reply]:
    """Take the local steps of all these rounds together, and return their replies.

    Args:
        rounds: Rounds of clients with the same model and data; their orders are the same except
            for client and batch size.
        steps: Computes the local steps of as many clients as there are rounds.
    """
    results = take_local_steps(
        order=rounds[0].order,
        batches=[each.batches for each in rounds],
        stored=[each.client.rows(each.state).size for each in rounds],
        steps=steps,
    )
    return [
        each.client.reply(each, result, steps) for each, result in zip(rounds, results, strict=True)
    ]


def _with_loss_of_last_probe(memory: ProbeMemory, before: ProbeMemory | None) -> ProbeMemory:
    """Return the memory with the first loss of the last probe, in a round without a probe.

    The next probe compares with that loss; otherwise a rise between two probes would go unseen.
    """
    return memory if before is None else replace(memory, first_loss=before.first_loss)
