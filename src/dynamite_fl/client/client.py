"""Algorithm 3 of the paper: a client's round.

A round has three parts:

1. ``begin_round`` takes in the samples that have arrived and draws the batches.
2. ``take_local_steps`` (``local_steps.py``) trains from the global model.
3. ``Client.reply`` measures what the server asks for, and returns the reply.

``finish_rounds`` does the last two parts for several clients at once. Executors (``executors/``)
differ only in how they compute local steps.

A probe is a measurement of the loss (``probe.py``). It compares the loss and the gradient of one
batch at two models: at the local model of a round, and at the global model when the next round
begins. The client keeps the first results in a ``ProbeMemory``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dynamite_fl._random import client_stream
from dynamite_fl.client.batches import BATCHES, LOSSES, MODEL, VARIANCE, draw_batches
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_steps import (
    AutogradSteps,
    StepComputer,
    StepResults,
    take_local_steps,
)
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.private_update import NodePrivacy, private_reply
from dynamite_fl.client.probe import ProbeMemory, measure
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.client.rate_trial import NO_TRIAL, check_rates, search_rate
from dynamite_fl.client.sketch import sketch
from dynamite_fl.client.unsound_samples import refuse_unsound_samples
from dynamite_fl.errors import NoSampleYet
from dynamite_fl.records import IntArray
from dynamite_fl.stream.buffer import Buffer
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.samples import Samples

_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)


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
class StartedRound:
    """A client's round whose batches are drawn and whose local steps are still to be taken.

    Attributes:
        client: The client.
        order: The server's order.
        state: The client's state with the samples that have arrived.
        new_samples: The samples that have arrived since the client's last round.
        batches: The rows of the batch of each local step.
    """

    client: "Client"
    order: Order
    state: ClientState
    new_samples: NewSamples
    batches: list[IntArray]


def begin_round(client: "Client", order: Order, state: ClientState) -> StartedRound:
    """Take in the samples that have arrived, and draw the batches of the round.

    Raises:
        NoSampleYet: The client has no sample to learn from.
    """
    state, new_samples = client.with_arrivals(order, state)
    return StartedRound(client, order, state, new_samples, client.batches(order, state))


def finish_rounds(rounds: Sequence[StartedRound], steps: StepComputer) -> list[Reply]:
    """Take the local steps of all these rounds together, and return the clients' replies.

    Args:
        rounds: The rounds of clients that share their model and samples. Their orders are the same
            except for client and batch size. If they ask for a search of the learning rate, there
            is only one round.
        steps: Computes the local steps of as many clients as there are rounds.
    """
    order, trial = rounds[0].order, NO_TRIAL
    if order.rate_trial in ("search", "adopt"):
        order, trial = search_rate(order, rounds[0].batches[0], steps)
    results = take_local_steps(
        order=order,
        batches=[started.batches for started in rounds],
        stored=[started.client.rows(started.state).size for started in rounds],
        steps=steps,
    )
    replies = [
        started.client.reply(started, result, steps)
        for started, result in zip(rounds, results, strict=True)
    ]
    trials = [trial] * len(rounds)
    if order.rate_trial == "check":
        trials = check_rates(order, [result.last_step for result in results], steps)
    replies = [
        replace(
            reply,
            learning_rate=order.learning_rate,
            stable_rate=trial.stable_rate,
            steepness=trial.steepness,
            trial_gradients=trial.gradients,
            measured_samples=reply.measured_samples + trial.gradients * started.batches[0].size,
        )
        for reply, started, trial in zip(replies, rounds, trials, strict=True)
    ]
    return [
        private_reply(reply, started.order, started.client.privacy)
        for reply, started in zip(replies, rounds, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Client:
    """A device with its data.

    Attributes:
        model: The model that is trained.
        samples: The samples that rows point into. Several clients may share them.
        indices: The rows of the client's own samples. It is used only if the client has all its
            samples from the start.
        seed: The seed of the training.
        settings: The settings of probes.
        optimizer: What is done with gradients.
        incoming: The samples that arrive while the client trains; None if it has all its samples
            from the start.
        privacy: How the client clips its update and adds noise to it; None if it sends the update
            as it is.
    """

    model: FlatModel
    samples: Samples
    indices: IntArray
    seed: int
    settings: ProbeSettings = field(default_factory=ProbeSettings)
    optimizer: Optimizer = field(default_factory=Optimizer)
    incoming: IncomingSamples | None = None
    privacy: NodePrivacy | None = None

    def run_round(
        self, order: Order, state: ClientState, steps: StepComputer | None = None
    ) -> Reply:
        """Run a round of this client alone.

        Args:
            order: The server's order.
            state: The client's state after its last round.
            steps: Computes the local steps. Default: torch's autograd.
        """
        randomness = client_stream(self.seed, order.client, order.round_index, MODEL)
        with keyed_random(randomness, self.model.device):
            started = begin_round(self, order, state)
            return finish_rounds([started], steps or self.autograd_steps(state))[0]

    def autograd_steps(self, state: ClientState) -> AutogradSteps:
        """Return a ``StepComputer`` for this client, which works for any model."""
        return AutogradSteps(self.model, self.samples, self.optimizer, state)

    def rows(self, state: ClientState) -> IntArray:
        """Return the rows of the samples that batches are drawn from."""
        return self.indices if state.buffer is None else state.buffer.rows

    def batches(self, order: Order, state: ClientState) -> list[IntArray]:
        """Draw a batch for each local step. A probe that is charged reuses a batch as the first."""
        rows = self.rows(state)
        sizes = [min(order.batch_size, rows.size)] * order.local_steps
        stream = client_stream(self.seed, order.client, order.round_index, BATCHES)
        batches = [rows[places] for places in draw_batches(stream, rows.size, sizes)]
        reused = _memory_to_reuse(order, state)
        if reused is not None:
            batches[0] = reused.batch
        return batches

    def with_arrivals(self, order: Order, state: ClientState) -> tuple[ClientState, NewSamples]:
        """Take in the samples that have arrived.

        Raises:
            NoSampleYet: The client has no sample to learn from.
        """
        if self.incoming is None:
            return state, NewSamples(_NO_ROWS, 0.0)
        needed = _NO_ROWS if state.memory is None else state.memory.batch
        buffer, new_rows = self.incoming.receive(order.round_index, state.buffer, needed)
        if not buffer.rows.size:
            raise NoSampleYet(f"client {order.client} has no sample in round {order.round_index}")
        seen_before = 0 if state.buffer is None else state.buffer.seen
        share = (buffer.seen - seen_before) / buffer.seen
        return replace(state, buffer=buffer), NewSamples(new_rows, share)

    def reply(self, started: "StartedRound", results: StepResults, steps: StepComputer) -> Reply:
        """Measure what the order asks for, and return the reply with the new state.

        Raises:
            InvalidInput: The model is not finite, because samples have NaN or infinity.
        """
        order, state = started.order, started.state
        if not math.isfinite(float(results.weights.sum())):
            refuse_unsound_samples(order.client, self.samples, started.batches)
        reply = Reply(
            weights=results.weights,
            samples=self.indices.size if state.buffer is None else state.buffer.seen,
            figures=None,
            gradient=None,
            gradient_variance=None,
            measured_samples=0,
            state=replace(steps.kept_state(), buffer=state.buffer),
            path=results.path,
            first_loss=results.first_loss,
        )
        if results.memory is None:  # the controller does not use probes
            return reply
        memory = results.memory
        if order.free_probes:
            memory = self._after_last_step(memory, results.weights, state)
        if order.probe:
            return self._with_probe(reply, started, results, memory, steps)
        # Nothing compares losses before and after these arrivals: M_i is due at the next probe.
        variance = None if started.new_samples.rows.size else state.gradient_variance
        return replace(reply, state=replace(reply.state, memory=memory, gradient_variance=variance))

    def _with_probe(
        self,
        reply: Reply,
        started: "StartedRound",
        results: StepResults,
        memory: ProbeMemory,
        steps: StepComputer,
    ) -> Reply:
        """Return the reply with the measurements of Algorithm 3, lines 7-9 and 17-20.

        Args:
            reply: The reply without measurements.
            started: The round.
            results: The results of the local steps.
            memory: What the next probe compares with.
            steps: Computes M_i.
        """
        order, state = started.order, started.state
        earlier = state.memory if order.free_probes else _memory_to_reuse(order, state)
        figures, gradient, measured_samples = None, None, 0
        is_variance_due = state.gradient_variance is None or started.new_samples.rows.size > 0
        if earlier is not None and results.gradient is not None:
            # The first batch of a round with a charged probe is the old one.
            loss, gradient = memory.first_loss, results.gradient
            if order.free_probes:
                loss, gradient = self._gradient(order.weights, earlier.batch, state)
            drift, drift_samples = self._drift(started, loss)
            figures = measure(earlier, order.weights[: self.model.trained], loss, gradient, drift)
            rise, rise_samples = self._loss_rise(started, earlier, memory.first_loss, loss)
            is_variance_due = state.gradient_variance is None or rise > self.settings.loss_rise
            measured_samples = drift_samples + rise_samples
        variance = state.gradient_variance
        if variance is None or is_variance_due:
            rows = self._rows_for_variance(order, state)
            variance = steps.gradient_variance(order.weights, rows)
            measured_samples += rows.size
        # With a single step, the new memory holds the same batch as the earlier one.
        is_used_up = order.reuses_batch and earlier is not None and order.local_steps == 1
        return replace(
            reply,
            figures=figures,
            gradient=sketch(gradient) if order.sketch and gradient is not None else gradient,
            gradient_variance=variance,
            measured_samples=measured_samples,
            state=replace(
                reply.state,
                memory=memory,
                gradient_variance=variance,
                memory_is_used_up=is_used_up,
            ),
        )

    def _after_last_step(
        self, memory: ProbeMemory, weights: Tensor, state: ClientState
    ) -> ProbeMemory:
        """Return the memory with the loss and the gradient at the model after the last step."""
        loss, gradient = self._gradient(weights, memory.batch, state)
        local_weights = weights[: self.model.trained]
        return replace(memory, weights=local_weights, loss=loss, gradient=gradient)

    def _gradient(
        self, weights: Tensor, rows: IntArray, state: ClientState
    ) -> tuple[float, Tensor]:
        """Compute the loss and the gradient of a batch at a model."""
        self.model.load(weights, state.local_buffers)
        loss = self.model.backward(self.samples.batch(rows))
        return float(loss), self.model.read_gradient()

    def _loss(self, order: Order, rows: IntArray, state: ClientState) -> float:
        """Compute the loss of samples at the global model, in training mode as in a local step."""
        self.model.load(order.weights, state.local_buffers)
        self.model.train()
        with torch.no_grad():
            return float(self.model.loss(self.samples.batch(rows)))

    def _drift(self, started: "StartedRound", loss: float) -> tuple[float, int]:
        """Measure the drift psi_i of Lemma 1, and return it with the number of samples used.

        The drift is the change of the client's mean loss through new samples: their share of all
        samples, times the difference between their loss and the loss of the samples before. The
        paper does not measure it.

        Args:
            started: The round, with its new samples.
            loss: The loss of the samples before, measured on the last batch.
        """
        new, order = started.new_samples, started.order
        if self.incoming is None or order.free_probes:
            return math.nan, 0
        if not new.rows.size:
            return 0.0, 0
        stream = client_stream(self.seed, order.client, order.round_index, LOSSES)
        size = min(self.settings.drift_samples, new.rows.size)
        rows = new.rows[draw_batches(stream, new.rows.size, [size])[0]]
        return new.share * (self._loss(order, rows, started.state) - loss), size

    def _loss_rise(
        self, started: "StartedRound", earlier: ProbeMemory, first_loss: float, old_loss: float
    ) -> tuple[float, int]:
        """Return by how much the loss of a new batch exceeds that of the old one.

        Both are losses at the global model (Algorithm 3, line 17). If the round begins with the old
        batch, the loss of a new one is computed here. The losses of small batches differ by chance,
        and measuring M_i then costs more than the round: a rise counts less there.

        Args:
            started: The round.
            earlier: The memory with the old batch.
            first_loss: The loss of the round's first batch.
            old_loss: The loss of the old batch.

        Returns:
            The rise, and the number of samples that were computed on.
        """
        order, most = started.order, self.settings.variance_samples
        if order.free_probes:
            return first_loss - old_loss, 0
        rows = self.rows(started.state)
        size = min(order.batch_size, rows.size, most)
        stream = client_stream(self.seed, order.client, order.round_index, LOSSES)
        new_loss = self._loss(
            order, rows[draw_batches(stream, rows.size, [size])[0]], started.state
        )
        weight = min(1.0, math.sqrt(min(size, earlier.batch.size) / most))
        return weight * (new_loss - old_loss), size

    def _rows_for_variance(self, order: Order, state: ClientState) -> IntArray:
        """Draw the samples that M_i is measured on."""
        stream = client_stream(self.seed, order.client, order.round_index, VARIANCE)
        rows = self.rows(state)
        size = min(self.settings.variance_samples, rows.size)
        return rows[draw_batches(stream, rows.size, [size])[0]]


def _memory_to_reuse(order: Order, state: ClientState) -> ProbeMemory | None:
    """Return the memory whose batch is the first batch of the round; None if there is none."""
    return state.memory_to_reuse(reuses_batch=order.reuses_batch, local_steps=order.local_steps)
