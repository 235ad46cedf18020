"""Algorithm 3: what a device does in a round."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dynamite_fl.client.batches import BATCHES, DRIFT, VARIANCE, draw, generator
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.client.path import Path, Tracker
from dynamite_fl.client.probe import Figures, Memory, gradient_variance, measure
from dynamite_fl.client.sketch import sketch
from dynamite_fl.records import IntArray
from dynamite_fl.stream.buffer import Buffer

# From a round, the buffer before it and rows outside it that are still needed, to the buffer when
# the round begins and its rows that are new.
Receive = Callable[[int, Buffer | None, IntArray], tuple[Buffer, IntArray]]


class NoSampleYet(ValueError):  # noqa: N818  it says what is the matter
    """Nothing has arrived that a client could learn from: it cannot take part in a round."""


@dataclass(frozen=True, eq=False)
class Order:
    """What the server asks of a client.

    Attributes:
        client: Its place in the fleet.
        round_index: k, from 1.
        weights: The global model, (d,).
        local_steps: tau_k.
        batch_size: s_i^k.
        learning_rate: eta.
        probe: Whether to measure the loss.
        remember: Whether to keep what a later probe compares with.
        path: Whether to measure the path of the local steps.
        sketch: Whether to send a sketch of the probe's gradient in its place.
    """

    client: int
    round_index: int
    weights: Tensor
    local_steps: int
    batch_size: int
    learning_rate: float
    probe: bool
    remember: bool
    path: bool = False
    sketch: bool = False


@dataclass(frozen=True, eq=False)
class ClientState:
    """What a client carries from round to round; all of it is data.

    Attributes:
        memory: What a later probe compares with.
        gradient_variance: M_i as last measured.
        buffer: What is stored, where samples stream in.
        worn: Whether the memory's batch was used in two rounds already.
    """

    memory: Memory | None = None
    gradient_variance: float | None = None
    buffer: Buffer | None = None
    worn: bool = False


def compared_with(state: ClientState, *, probe: bool, local_steps: int) -> Memory | None:
    """What a probe of this round compares with, whose batch is then the round's first.

    With one local step that batch would be the last again, and so on: as long as there is one local
    step, no other sample would be learned from. So it is used for two rounds, and the third does
    without figures.
    """
    return None if not probe or (state.worn and local_steps == 1) else state.memory


@dataclass(frozen=True, eq=False)
class Reply:
    """What a client sends back, and its new state, which stays with it.

    Attributes:
        weights: Its local model, (d,).
        samples: D_i^k, how many samples it has received so far.
        figures: What it measured of the loss; None without probe.
        gradient: g_i(w) at the global model, (d,), or a sketch of it, (m,); None without probe.
        gradient_variance: M_i; None where never measured.
        measured_samples: How many samples it used to measure M_i anew and the drift.
        state: For the next round.
        path: What its local steps show; None if nobody asked.
    """

    weights: Tensor
    samples: int
    figures: Figures | None
    gradient: Tensor | None
    gradient_variance: float | None
    measured_samples: int
    state: ClientState
    path: Path | None = None


@dataclass(frozen=True, eq=False)
class News:
    """What has arrived since a client last took part.

    Attributes:
        rows: The new samples that were stored.
        share: All new samples, as a part of all that have arrived so far.
    """

    rows: IntArray
    share: float


@dataclass(frozen=True, eq=False)
class LocalSteps:
    """What local steps came to.

    Attributes:
        weights: The local model after them, (d,).
        memory: For a later probe; None if nothing was to be kept.
        gradient: Of the first batch at the global model, (d,); None likewise.
        path: What they show; None if nobody asked.
    """

    weights: Tensor
    memory: Memory | None = None
    gradient: Tensor | None = None
    path: Path | None = None


@dataclass(frozen=True)
class ProbeSettings:
    """How M_i and drift are measured.

    Attributes:
        variance_samples: How many samples M_i is measured on, at most.
        drift_samples: How many new samples drift is measured on, at most.
        loss_rise: By how much the loss must rise for M_i to be measured anew.
        rise_samples: On how many samples a rise counts in full. On fewer it counts less, as chance
            does more: else clients with small batches would measure all the time.
        only_sketches: Whether a device refuses to send a whole gradient, whoever asks.
    """

    variance_samples: int = 64
    drift_samples: int = 64
    loss_rise: float = 0.5
    rise_samples: int = 64
    only_sketches: bool = False


@dataclass(frozen=True, eq=False)
class Client:
    """A device: its data, and how it trains.

    Attributes:
        model: What is trained.
        inputs: All inputs that ``indices`` or the buffer point into.
        targets: All targets, likewise.
        indices: The client's own samples, where they are all at hand from the start.
        seed: The training's seed.
        settings: How M_i and drift are measured.
        receive: What has arrived, where samples stream in; ``indices`` counts for nothing then.
    """

    model: FlatModel
    inputs: Tensor
    targets: Tensor
    indices: IntArray
    seed: int
    settings: ProbeSettings = ProbeSettings()
    receive: Receive | None = None

    def play(self, order: Order, state: ClientState) -> Reply:
        """One round: local steps from the global model, measuring on the way."""
        state, news = self.with_arrivals(order, state)
        weights, tracker = order.weights, Tracker(order.weights, order.local_steps)
        for step, batch in enumerate(self.batches(order, state)):
            loss, gradient = self.model.gradient(weights, *self._samples(batch))
            if step == 0:
                first_loss, first_gradient = float(loss), gradient
            if step == order.local_steps - 1:
                memory = Memory(batch, weights, float(loss), gradient, first_loss)
            weights = weights - order.learning_rate * gradient
            if order.path:
                tracker.step(step, weights, gradient)

        def variance(rows: IntArray) -> float:
            return gradient_variance(self.model, order.weights, *self._samples(rows))

        path = tracker.path(batch.size, self.rows(state).size) if order.path else None
        steps = LocalSteps(weights, memory, first_gradient, path)
        return self.reply(order, state, news, steps, variance)

    def with_arrivals(self, order: Order, state: ClientState) -> tuple[ClientState, News]:
        """The state when the round begins, with what has arrived.

        Raises:
            NoSampleYet: There is nothing to learn from.
        """
        if self.receive is None:
            return state, News(self.indices[:0], 0.0)
        needed = self.indices[:0] if state.memory is None else state.memory.batch
        buffer, fresh = self.receive(order.round_index, state.buffer, needed)
        if not buffer.rows.size:
            raise NoSampleYet(f"client {order.client} has no sample in round {order.round_index}")
        before = 0 if state.buffer is None else state.buffer.seen
        share = (buffer.seen - before) / buffer.seen
        return replace(state, buffer=buffer), News(fresh, share)

    def rows(self, state: ClientState) -> IntArray:
        """The samples at hand, as rows of the data."""
        return self.indices if state.buffer is None else state.buffer.rows

    def batches(self, order: Order, state: ClientState) -> list[IntArray]:
        """A batch for each local step; the first is that of what a probe compares with."""
        rows = self.rows(state)
        sizes = [min(order.batch_size, rows.size)] * order.local_steps
        random = generator(self.seed, order.client, order.round_index, BATCHES)
        batches = [rows[places] for places in draw(random, rows.size, sizes)]
        memory = compared_with(state, probe=order.probe, local_steps=order.local_steps)
        if memory is not None:
            batches[0] = memory.batch
        return batches

    def reply(
        self,
        order: Order,
        state: ClientState,
        news: News,
        steps: LocalSteps,
        variance: Callable[[IntArray], float],
    ) -> Reply:
        """What to send after the local steps, and to keep.

        Args:
            order: What was asked.
            state: When the round began, with what has arrived.
            news: What has arrived.
            steps: What the local steps came to.
            variance: M_i at the global model, from some samples.
        """
        samples = self.indices.size if state.buffer is None else state.buffer.seen
        if steps.memory is None or not order.remember:
            kept = ClientState(buffer=state.buffer)
            return Reply(steps.weights, samples, None, None, None, 0, kept, steps.path)
        if not order.probe:
            memory = _since_the_last_probe(state.memory, steps.memory)
            kept = replace(state, memory=memory, worn=False)
            return Reply(steps.weights, samples, None, None, None, 0, kept, steps.path)
        loss = steps.memory.first_loss
        figures, drift, compared = None, math.nan, 0
        before = compared_with(state, probe=order.probe, local_steps=order.local_steps)
        if before is not None and steps.gradient is not None:
            drift, compared = self._drift(order, news, loss)
            figures = measure(before, order.weights, loss, steps.gradient, drift)
        found, measured = state.gradient_variance, 0
        rise = self._rise(state, loss) + (0.0 if math.isnan(drift) else drift)
        sample = self._variance_sample(order, state, rise)
        if sample is not None:
            found, measured = variance(sample), sample.size
        worn = before is not None and order.local_steps == 1
        gradient = None if figures is None else steps.gradient
        return Reply(
            weights=steps.weights,
            samples=samples,
            figures=figures,
            gradient=sketch(gradient) if order.sketch and gradient is not None else gradient,
            gradient_variance=found,
            measured_samples=compared + measured,
            state=ClientState(steps.memory, found, state.buffer, worn),
            path=steps.path,
        )

    def _drift(self, order: Order, news: News, loss: float) -> tuple[float, int]:
        """psi_i of Lemma 1, and from how many samples.

        What arrives changes the loss of all that has arrived by its share of the difference. The
        loss before is that of the last round's batch.
        """
        if self.receive is None:
            return math.nan, 0
        if not news.rows.size:
            return 0.0, 0
        random = generator(self.seed, order.client, order.round_index, DRIFT)
        size = min(self.settings.drift_samples, news.rows.size)
        rows = news.rows[draw(random, news.rows.size, [size])[0]]
        with torch.no_grad():
            fresh = float(self.model.loss(order.weights, *self._samples(rows)))
        return news.share * (fresh - loss), size

    def _rise(self, state: ClientState, loss: float) -> float:
        """By how much the loss has risen since the last probe, as far as batches can tell."""
        if state.memory is None:
            return 0.0
        trust = min(1.0, math.sqrt(state.memory.batch.size / self.settings.rise_samples))
        return trust * (loss - state.memory.first_loss)

    def _variance_sample(self, order: Order, state: ClientState, rise: float) -> IntArray | None:
        """The samples to measure M_i on: at first and when the loss has risen, else None."""
        if state.gradient_variance is not None and rise <= self.settings.loss_rise:
            return None
        random = generator(self.seed, order.client, order.round_index, VARIANCE)
        rows = self.rows(state)
        size = min(self.settings.variance_samples, rows.size)
        return rows[draw(random, rows.size, [size])[0]]

    def _samples(self, rows: IntArray) -> tuple[Tensor, Tensor]:
        where = torch.from_numpy(rows)
        return self.inputs[where], self.targets[where]


def _since_the_last_probe(before: Memory | None, now: Memory) -> Memory:
    """What to keep of a round without probe: the loss is to be compared with the last probe's.

    Else a rise in the rounds between two probes would go unseen.
    """
    return now if before is None else replace(now, first_loss=before.first_loss)
