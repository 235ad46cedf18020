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

from dynamite_fl._random import client_stream
from dynamite_fl.client.batches import BATCHES, MODEL, RACE, draw_batches
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.incoming import IncomingSamples, NewSamples, take_in
from dynamite_fl.client.local_steps import (
    AutogradSteps,
    StepComputer,
    StepResults,
    take_local_steps,
)
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.private_update import NodePrivacy, private_reply
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.client.probing import Prober, memory_to_reuse
from dynamite_fl.client.rate_race import RACE_STEPS, race_batch
from dynamite_fl.client.rate_trial import NO_TRIAL, check_rates, search_rate
from dynamite_fl.client.unsound_samples import refuse_unsound_samples
from dynamite_fl.records import IntArray
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.samples import Samples


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
    state, new_samples = take_in(client.incoming, order, state)
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
        (started,) = rounds
        raced = started.client.race_batches(order, started.state) if order.race else []
        order, trial = search_rate(order, started.batches[0], raced, steps)
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
            race_factor=trial.race_factor,
            trial_gradients=trial.gradients,
            measured_samples=reply.measured_samples + trial.samples,
        )
        for reply, trial in zip(replies, trials, strict=True)
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
        reused = memory_to_reuse(order, state)
        if reused is not None:
            batches[0] = reused.batch
        return batches

    def race_batches(self, order: Order, state: ClientState) -> list[IntArray]:
        """Draw the batches with which learning rates race."""
        rows = self.rows(state)
        size = min(race_batch(self.model.least_batch), rows.size)
        stream = client_stream(self.seed, order.client, order.round_index, RACE)
        return [rows[places] for places in draw_batches(stream, rows.size, [size] * RACE_STEPS)]

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
        return self._prober(started).with_measurements(reply, results, steps)

    def _prober(self, started: "StartedRound") -> Prober:
        """Return what measures the loss of this client in a round."""
        return Prober(
            model=self.model,
            samples=self.samples,
            rows=self.rows(started.state),
            seed=self.seed,
            settings=self.settings,
            order=started.order,
            state=started.state,
            new_samples=started.new_samples,
            streams=self.incoming is not None,
        )
