"""Algorithm 3: what a device does in a round."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dynamite_fl.client.batches import BATCHES, VARIANCE, draw, generator
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.client.probe import Figures, Memory, gradient_variance, measure
from dynamite_fl.records import IntArray


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
    """

    client: int
    round_index: int
    weights: Tensor
    local_steps: int
    batch_size: int
    learning_rate: float
    probe: bool


@dataclass(frozen=True, eq=False)
class ClientState:
    """What a client carries from round to round; all of it is data."""

    memory: Memory | None = None
    gradient_variance: float | None = None


@dataclass(frozen=True, eq=False)
class Reply:
    """What a client sends back, and its new state, which stays with it.

    Attributes:
        weights: Its local model, (d,).
        figures: What it measured of the loss; None without probe.
        gradient: g_i(w) at the global model, (d,); None without probe.
        gradient_variance: M_i; None where never measured.
        variance_samples: How many samples it used to measure M_i anew.
        state: For the next round.
    """

    weights: Tensor
    figures: Figures | None
    gradient: Tensor | None
    gradient_variance: float | None
    variance_samples: int
    state: ClientState


@dataclass(frozen=True)
class ProbeSettings:
    """How M_i is measured.

    Attributes:
        variance_samples: How many samples it is measured on, at most.
        loss_rise: By how much the first batch's loss must rise for it to be measured anew.
    """

    variance_samples: int = 64
    loss_rise: float = 0.5


@dataclass(frozen=True, eq=False)
class Client:
    """A device: its data, and how it trains.

    Attributes:
        model: What is trained.
        inputs: All inputs that ``indices`` point into.
        targets: All targets that ``indices`` point into.
        indices: The client's own samples.
        seed: The training's seed.
        settings: How M_i is measured.
    """

    model: FlatModel
    inputs: Tensor
    targets: Tensor
    indices: IntArray
    seed: int
    settings: ProbeSettings = ProbeSettings()

    def play(self, order: Order, state: ClientState) -> Reply:
        """One round: local steps from the global model, measuring on the way."""
        batches = self.batches(order, state)
        weights = order.weights
        for step, batch in enumerate(batches):
            loss, gradient = self.model.gradient(weights, *self._samples(batch))
            if step == 0:
                first_loss, first_gradient = float(loss), gradient
            if step == order.local_steps - 1:
                memory = Memory(batch, weights, float(loss), gradient, first_loss)
            weights = weights - order.learning_rate * gradient
        if not order.probe:
            return Reply(weights, None, None, None, 0, ClientState())
        figures = None
        if state.memory is not None:
            figures = measure(state.memory, order.weights, first_loss, first_gradient)
        variance, used = self._variance(order, state, first_loss)
        return Reply(
            weights=weights,
            figures=figures,
            gradient=None if figures is None else first_gradient,
            gradient_variance=variance,
            variance_samples=used,
            state=ClientState(memory, variance),
        )

    def batches(self, order: Order, state: ClientState) -> list[IntArray]:
        """A batch for each local step; the first is the last of the round before, if probed."""
        sizes = [min(order.batch_size, self.indices.size)] * order.local_steps
        random = generator(self.seed, order.client, order.round_index, BATCHES)
        batches = draw(random, self.indices.size, sizes)
        if order.probe and state.memory is not None:
            batches[0] = state.memory.batch
        return batches

    def variance_sample(self, order: Order, state: ClientState, loss: float) -> IntArray | None:
        """The samples to measure M_i on: at first and when the loss has risen, else None."""
        rise = 0.0 if state.memory is None else loss - state.memory.first_loss
        if state.gradient_variance is not None and rise <= self.settings.loss_rise:
            return None
        random = generator(self.seed, order.client, order.round_index, VARIANCE)
        size = min(self.settings.variance_samples, self.indices.size)
        return draw(random, self.indices.size, [size])[0]

    def _samples(self, batch: IntArray) -> tuple[Tensor, Tensor]:
        where = torch.from_numpy(self.indices[batch])
        return self.inputs[where], self.targets[where]

    def _variance(self, order: Order, state: ClientState, loss: float) -> tuple[float, int]:
        """M_i, known or measured anew, and on how many samples."""
        sample = self.variance_sample(order, state, loss)
        if sample is None:
            return state.gradient_variance or 0.0, 0
        found = gradient_variance(self.model, order.weights, *self._samples(sample))
        return found, sample.size
