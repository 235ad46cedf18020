"""The measurements of a round: Algorithm 3, lines 7-9 and 17-20. ``probe.py`` has the formulas.

Beside the figures of a probe, a client measures the gradient variance M_i, if it may have changed,
and the drift psi_i, if data streams in.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dynamite_fl._random import client_stream
from dynamite_fl.client.batches import LOSSES, VARIANCE, draw_batches
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.incoming import NewSamples
from dynamite_fl.client.local_steps import StepComputer, StepResults
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.probe import ProbeMemory, measure
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.client.sketch import sketch
from dynamite_fl.records import IntArray
from dynamite_fl.task.samples import Samples


@dataclass(frozen=True, eq=False)
class Prober:
    """Measures the loss of one client in one round.

    Attributes:
        model: The model.
        samples: The samples that rows point into.
        rows: The rows of the samples that the client's batches are drawn from.
        seed: The seed of the training.
        settings: The settings of probes.
        order: The server's order.
        state: The client's state with the samples that have arrived.
        new_samples: The samples that have arrived since the client's last round.
        streams: Whether samples arrive while the client trains.
    """

    model: FlatModel
    samples: Samples
    rows: IntArray
    seed: int
    settings: ProbeSettings
    order: Order
    state: ClientState
    new_samples: NewSamples
    streams: bool

    def with_measurements(self, reply: Reply, results: StepResults, steps: StepComputer) -> Reply:
        """Return the reply with what the order asks for.

        Args:
            reply: The reply without measurements.
            results: The results of the local steps.
            steps: Computes M_i.
        """
        if results.memory is None:  # the controller does not use probes
            return reply
        memory = results.memory
        if self.order.free_probes:
            memory = self._after_last_step(memory, results.weights)
        if self.order.probe:
            return self._with_probe(reply, results, memory, steps)
        # Nothing compares losses before and after these arrivals: M_i is due at the next probe.
        variance = None if self.new_samples.rows.size else self.state.gradient_variance
        return replace(reply, state=replace(reply.state, memory=memory, gradient_variance=variance))

    def _with_probe(
        self, reply: Reply, results: StepResults, memory: ProbeMemory, steps: StepComputer
    ) -> Reply:
        """Return the reply with a probe.

        Args:
            reply: The reply without measurements.
            results: The results of the local steps.
            memory: The results that the next probe compares with.
            steps: Computes M_i.
        """
        order, state = self.order, self.state
        earlier = state.memory if order.free_probes else memory_to_reuse(order, state)
        figures, gradient, measured_samples = None, None, 0
        is_variance_due = state.gradient_variance is None or self.new_samples.rows.size > 0
        if earlier is not None and results.gradient is not None:
            # The first batch of a round with a charged probe is the old one.
            loss, gradient = memory.first_loss, results.gradient
            if order.free_probes:
                loss, gradient = self._gradient(order.weights, earlier.batch)
            drift, drift_samples = self._drift(loss)
            figures = measure(earlier, order.weights[: self.model.trained], loss, gradient, drift)
            rise, rise_samples = self._loss_rise(earlier, memory.first_loss, loss)
            is_variance_due = state.gradient_variance is None or rise > self.settings.loss_rise
            measured_samples = drift_samples + rise_samples
        variance = state.gradient_variance
        if variance is None or is_variance_due:
            rows = self._draw(self.rows, self.settings.variance_samples, VARIANCE)
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

    def _after_last_step(self, memory: ProbeMemory, weights: Tensor) -> ProbeMemory:
        """Return the memory with the loss and the gradient at the model after the last step."""
        loss, gradient = self._gradient(weights, memory.batch)
        local_weights = weights[: self.model.trained]
        return replace(memory, weights=local_weights, loss=loss, gradient=gradient)

    def _drift(self, loss: float) -> tuple[float, int]:
        """Measure the drift psi_i of Lemma 1, and return it with the number of samples used.

        The drift is the change of the client's mean loss through new samples: their share of all
        samples, times the difference between their loss and the loss of the samples before. The
        paper does not measure it.

        Args:
            loss: The loss of the samples before, measured on the last batch.
        """
        new = self.new_samples
        if not self.streams or self.order.free_probes:
            return math.nan, 0
        if not new.rows.size:
            return 0.0, 0
        rows = self._draw(new.rows, self.settings.drift_samples, LOSSES)
        return new.share * (self._loss(rows) - loss), rows.size

    def _loss_rise(
        self, earlier: ProbeMemory, first_loss: float, old_loss: float
    ) -> tuple[float, int]:
        """Return by how much the loss of a new batch exceeds that of the old one.

        Both are losses at the global model (Algorithm 3, line 17). If the round begins with the old
        batch, the loss of a new one is computed here. The losses of small batches differ by chance,
        and measuring M_i costs more than their round. So a rise counts less if the batch is small.

        Args:
            earlier: The memory with the old batch.
            first_loss: The loss of the round's first batch.
            old_loss: The loss of the old batch.

        Returns:
            The rise, and the number of samples that were computed on.
        """
        if self.order.free_probes:
            return first_loss - old_loss, 0
        most = self.settings.variance_samples
        rows = self._draw(self.rows, min(self.order.batch_size, most), LOSSES)
        new_loss = self._loss(rows)
        weight = min(1.0, math.sqrt(min(rows.size, earlier.batch.size) / most))
        return weight * (new_loss - old_loss), rows.size

    def _draw(self, rows: IntArray, most: int, purpose: int) -> IntArray:
        """Draw some of these rows, at most so many, for one of the purposes in ``batches.py``."""
        stream = client_stream(self.seed, self.order.client, self.order.round_index, purpose)
        return rows[draw_batches(stream, rows.size, [min(most, rows.size)])[0]]

    def _gradient(self, weights: Tensor, rows: IntArray) -> tuple[float, Tensor]:
        """Compute the loss and the gradient of a batch at a model."""
        self.model.load(weights, self.state.local_buffers)
        loss = self.model.backward(self.samples.batch(rows))
        return float(loss), self.model.read_gradient()

    def _loss(self, rows: IntArray) -> float:
        """Compute the loss of samples at the global model, in training mode as in a local step."""
        self.model.load(self.order.weights, self.state.local_buffers)
        self.model.train()
        with torch.no_grad():
            return float(self.model.loss(self.samples.batch(rows)))


def memory_to_reuse(order: Order, state: ClientState) -> ProbeMemory | None:
    """Return the memory whose batch is the first batch of the round; None if there is none."""
    return state.memory_to_reuse(reuses_batch=order.reuses_batch, local_steps=order.local_steps)
