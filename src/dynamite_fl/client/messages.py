"""The order that a client gets, the reply that it gives and the state that it keeps."""

import math
from dataclasses import dataclass

from torch import Tensor

from dynamite_fl.client.optimizer import StateEntry
from dynamite_fl.client.probe import ProbeFigures, ProbeMemory
from dynamite_fl.client.step_path import StepPath
from dynamite_fl.stream.buffer import Buffer

# Whether a client tries learning rates (``rate_trial.py``):
# - "none": it does not,
# - "check": after its local steps, it looks at what the last one of them shows,
# - "search": it searches for the largest stable rate,
# - "adopt": it searches for it, and takes its local steps with half of it.
RATE_TRIALS = ("none", "check", "search", "adopt")


@dataclass(frozen=True, eq=False)
class Order:
    """The server's order to one client for one round.

    Attributes:
        client: The client's place in the fleet.
        round_index: The number of the round, k, from 1.
        weights: The global model, (d,).
        local_steps: The number of local steps, tau_k.
        batch_size: The number of samples in the batch of a local step, s_i^k.
        learning_rate: The learning rate, eta.
        probe: Whether the client measures its loss.
        remember: Whether the client keeps what a later probe compares with.
        path: Whether the client measures the path of its local steps.
        sketch: Whether the client sends a sketch of the probe's gradient instead of the gradient.
        free_probes: Whether a probe costs nothing. Then it is the one that the paper prints, which
            computes more gradients (``probe.py``).
        rate_trial: Whether the client tries learning rates, one of ``RATE_TRIALS``.
        race: Whether larger rates race with the one that a search finds (``rate_race.py``).
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
    free_probes: bool = False
    rate_trial: str = "none"
    race: bool = False

    @property
    def reuses_batch(self) -> bool:
        """Whether the first batch is the one that the probe compares, to save a gradient."""
        return self.probe and not self.free_probes


@dataclass(frozen=True, eq=False)
class ClientState:
    """The data that a client carries from round to round.

    Attributes:
        memory: The last batch and its results, which the next probe compares with.
        gradient_variance: The last measured gradient variance, M_i.
        buffer: The stored samples; None if the client has all its samples from the start.
        memory_is_used_up: Whether the batch in ``memory`` was the first batch of two rounds.
        optimizer: The state of the optimiser; empty if every round begins with a fresh one.
        local_buffers: The model's buffers that the client keeps to itself; None if there are none.
    """

    memory: ProbeMemory | None = None
    gradient_variance: float | None = None
    buffer: Buffer | None = None
    memory_is_used_up: bool = False
    optimizer: tuple[StateEntry, ...] = ()
    local_buffers: Tensor | None = None

    def memory_to_reuse(self, *, reuses_batch: bool, local_steps: int) -> ProbeMemory | None:
        """Return the memory whose batch is the first batch of a round; None if there is none.

        In a round of one local step, the first batch is also the last one, so that the next round
        would begin with it again: the client would never learn from another sample. Therefore a
        batch serves for two such rounds, and the round after them measures nothing.
        """
        if not reuses_batch or (self.memory_is_used_up and local_steps == 1):
            return None
        return self.memory


@dataclass(frozen=True, eq=False)
class Reply:
    """A client's reply to an order, together with its new state, which the server never gets.

    Attributes:
        weights: The local model after the local steps, (d,).
        samples: The number of samples that the client has received so far, D_i^k.
        figures: The measurements of a probe; None without a probe.
        gradient: The gradient of the first batch at the global model, (trained,), or a sketch of
            it, (m,); None without a probe.
        gradient_variance: The gradient variance, M_i; None if it was never measured.
        measured_samples: The number of samples that were computed on to measure the gradient
            variance, the drift and the stable rate in this round.
        state: The state for the next round.
        path: The path of the local steps; None if the order does not ask for it.
        first_loss: The loss of the first batch at the global model.
        learning_rate: The learning rate of the local steps.
        stable_rate: The largest stable learning rate; NaN if it was not tried.
        steepness: The slope of the loss along the trial step, divided by the learning rate. With
            plain SGD it is the squared norm of the gradient. NaN if no rate was tried.
        race_factor: The rate that won a race, relative to the stable one (``rate_race.py``); NaN if
            there was none.
        trial_gradients: The number of gradients that were computed to find these rates.
    """

    weights: Tensor
    samples: int
    figures: ProbeFigures | None
    gradient: Tensor | None
    gradient_variance: float | None
    measured_samples: int
    state: ClientState
    path: StepPath | None = None
    first_loss: float = math.nan
    learning_rate: float = math.nan
    stable_rate: float = math.nan
    steepness: float = math.nan
    race_factor: float = math.nan
    trial_gradients: int = 0
