"""Algorithm 3: a client's round, worked by hand."""

import math
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pytest
import torch

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.client.probe import ProbeSettings
from dynamite_fl.errors import NoSampleYet
from dynamite_fl.records import IntArray
from dynamite_fl.stream.buffer import Buffer
from tests.client.tasks import line_task

# Two samples: x = (1, 0) with y = 2, and x = (0, 2) with y = 2.
TASK = line_task([[1.0, 0.0], [0.0, 2.0]], [2.0, 2.0])


def client_of(indices: list[int], **settings: float) -> Client:
    return Client(
        model=FlatModel(TASK, seed=0),
        samples=TASK.train,
        indices=np.array(indices),
        seed=0,
        settings=ProbeSettings(**settings),  # type: ignore[arg-type]
    )


ORDER = Order(
    client=0,
    round_index=1,
    weights=torch.zeros(2),
    local_steps=2,
    batch_size=2,
    learning_rate=0.5,
    probe=True,
    remember=True,
)


def test_one_round_by_hand() -> None:
    """Both samples in every batch: g(w) = ((w1 - 2)/2, (4 w2 - 4)/2), F = mean of squares/2.

    At (0, 0): F = (2 + 2)/2 = 2, g = (-1, -2). A step of 0.5 leads to (0.5, 1).
    There: F = (1.5^2/2 + 0)/2 = 0.5625, g = (-0.75, 0). The next leads to (0.875, 1).
    """
    reply = client_of([0, 1]).run_round(ORDER, ClientState())
    assert reply.weights.tolist() == [0.875, 1.0]
    assert reply.figures is None  # nothing to compare with before the second round
    assert reply.gradient is None
    memory = reply.state.memory
    assert memory is not None
    assert memory.weights.tolist() == [0.5, 1.0]
    assert memory.loss == 0.5625
    assert memory.gradient.tolist() == [-0.75, 0.0]
    assert memory.first_loss == 2.0


def test_the_probe_of_the_next_round_by_hand() -> None:
    """At the new global model (1, 1): F = (1/2 + 0)/2 = 0.25, g = (-0.5, 0).

    From the memory at (0.5, 1): distance 0.5, change of loss 0.3125, of gradient 0.25.
    """
    client = client_of([0, 1])
    state = client.run_round(ORDER, ClientState()).state
    order = replace(ORDER, round_index=2, weights=torch.tensor([1.0, 1.0]), local_steps=1)
    reply = client.run_round(order, state)
    figures = reply.figures
    assert figures is not None
    assert figures.loss == 0.25
    assert figures.quadratic_bound == pytest.approx(0.3125 / 0.25)
    assert figures.lipschitz == pytest.approx(0.3125 / 0.5)
    assert figures.smoothness == pytest.approx(0.25 / 0.5)
    assert figures.pl_constant == pytest.approx(0.25 / 0.5)
    assert reply.gradient is not None
    assert reply.gradient.tolist() == [-0.5, 0.0]
    assert reply.weights.tolist() == [1.25, 1.0]


def test_gradient_variance_by_hand() -> None:
    """Gradients of the two samples at 0 are (-2, 0) and (0, -4), their mean (-1, -2).

    Each is (1, 2) or its opposite away: (5 + 5)/(2 - 1).
    """
    reply = client_of([0, 1]).run_round(ORDER, ClientState())
    assert reply.gradient_variance == pytest.approx(10.0)
    assert reply.measured_samples == 2
    assert client_of([0]).run_round(ORDER, ClientState()).gradient_variance == 0.0


def test_gradient_variance_is_measured_anew_when_the_loss_rises() -> None:
    client = client_of([0, 1], loss_rise=0.5)
    state = client.run_round(ORDER, ClientState()).state
    calm = client.run_round(replace(ORDER, round_index=2, weights=torch.tensor([1.0, 1.0])), state)
    assert calm.gradient_variance == pytest.approx(10.0)
    assert calm.measured_samples == 0
    # At (-2, 0): F = (16/2 + 4/2)/2 = 5, more than 2 + 0.5. Gradients (-4, 0) and (0, -4).
    risen = client.run_round(
        replace(ORDER, round_index=2, weights=torch.tensor([-2.0, 0.0])), state
    )
    assert risen.gradient_variance == pytest.approx(16.0)
    assert risen.measured_samples == 2


def test_a_rise_on_few_samples_counts_less() -> None:
    """On the two samples the loss rises by 3: of 64 that is sqrt(2/64) * 3 = 0.53."""
    for rise_samples, loss_rise, measured in ((2, 2.9, 2), (64, 0.5, 2), (64, 0.6, 0)):
        client = client_of([0, 1], loss_rise=loss_rise, rise_samples=rise_samples)
        state = client.run_round(ORDER, ClientState()).state
        order = replace(ORDER, round_index=2, weights=torch.tensor([-2.0, 0.0]))
        assert client.run_round(order, state).measured_samples == measured


def test_without_a_probe_nothing_is_kept_or_measured() -> None:
    reply = client_of([0, 1]).run_round(replace(ORDER, probe=False, remember=False), ClientState())
    assert reply.weights.tolist() == [0.875, 1.0]
    assert reply.figures is None
    assert reply.gradient is None
    assert reply.gradient_variance is None
    assert reply.state.memory is None


def test_models_that_met_say_nothing() -> None:
    client = client_of([0, 1])
    state = client.run_round(replace(ORDER, local_steps=1), ClientState()).state
    same = client.run_round(replace(ORDER, round_index=2), state).figures
    assert same is not None
    assert math.isnan(same.smoothness)
    assert math.isnan(same.quadratic_bound)
    assert same.pl_constant == pytest.approx(5 / 4)


def test_the_probe_reuses_the_last_batch() -> None:
    """With batches of one sample, the next round begins with the last round's."""
    client = client_of([0, 1])
    small = replace(ORDER, batch_size=1, local_steps=1)
    state = client.run_round(small, ClientState()).state
    assert state.memory is not None
    reply = client.run_round(replace(small, round_index=2, weights=torch.zeros(2)), state)
    assert reply.state.memory is not None
    assert reply.state.memory.batch.tolist() == state.memory.batch.tolist()


def test_at_one_local_step_a_batch_is_used_for_two_rounds_and_no_more() -> None:
    """Else the client would learn from these samples alone, and from none that arrive."""
    client = client_of([0, 1])
    one = replace(ORDER, batch_size=1, local_steps=1)
    state, used, told = ClientState(), [], []
    for k in range(1, 41):
        reply = client.run_round(
            replace(one, round_index=k, weights=torch.tensor([k / 10, 0.0])), state
        )
        state = reply.state
        assert state.memory is not None
        used.append(int(state.memory.batch[0]))
        told.append(reply.figures is not None)
    assert told == [False, True] * 20
    assert used[::2] == used[1::2]
    assert set(used[::2]) == {0, 1}
    # With more local steps again, the batch that is used up is compared with, and a new one kept.
    reply = client.run_round(replace(ORDER, round_index=41, batch_size=1), state)
    assert reply.figures is not None
    assert not reply.state.memory_is_used_up


def test_a_batch_is_never_larger_than_the_data() -> None:
    reply = client_of([1]).run_round(replace(ORDER, batch_size=60), ClientState())
    # Its one sample's gradient is 4 w2 - 4: from 0 a step of 0.5 leads to 2, and from there back.
    assert reply.weights.tolist() == [0.0, 0.0]


def test_a_probe_now_and_then_compares_with_the_round_before_it() -> None:
    """Rounds 1 and 3 are probed, 2 is not: the probe of round 3 compares with round 2."""
    client = client_of([0, 1])
    state = client.run_round(ORDER, ClientState()).state
    quiet = replace(ORDER, round_index=2, weights=torch.tensor([0.5, 1.0]), probe=False)
    between = client.run_round(replace(quiet, local_steps=1), state)
    assert between.figures is None
    assert between.measured_samples == 0
    assert between.state.gradient_variance == state.gradient_variance
    reply = client.run_round(
        replace(ORDER, round_index=3, weights=torch.tensor([1.0, 1.0])), between.state
    )
    figures = reply.figures
    assert figures is not None
    assert figures.loss == 0.25
    assert figures.smoothness == pytest.approx(0.25 / 0.5)  # from (0.5, 1), as worked above
    assert reply.gradient_variance == pytest.approx(10.0)


def test_a_rise_between_two_probes_is_seen_at_the_next() -> None:
    """F is 2 at the probe of round 1, 5 in round 2 and 5 at the probe of round 3."""
    client = client_of([0, 1], loss_rise=0.5)
    state = client.run_round(ORDER, ClientState()).state
    high = replace(ORDER, round_index=2, weights=torch.tensor([-2.0, 0.0]), probe=False)
    state = client.run_round(high, state).state
    reply = client.run_round(replace(high, round_index=3, probe=True), state)
    assert reply.gradient_variance == pytest.approx(16.0)
    assert reply.measured_samples == 2


# Streams: the samples x = (1, 0), y = 2 and x = (0, 2), y = 2, and when they come.


def receiving(*arrivals: list[int], **settings: float) -> Client:
    """A client to which these rows come in rounds 1, 2, ...; it stores them all."""

    return replace(client_of([0, 1], **settings), incoming=GivenArrivals(arrivals))


@dataclass
class GivenArrivals:
    rows: tuple[list[int], ...]

    def receive(
        self, round_index: int, buffer: Buffer | None, needed: IntArray
    ) -> tuple[Buffer, IntArray]:
        del needed  # rows keep their samples
        seen = 0 if buffer is None else buffer.seen
        rows = np.array([*chain(*self.rows[:round_index])], dtype=np.int64)
        return Buffer(rows, rows.size), rows[seen:]


def test_drift_by_hand() -> None:
    """Round 1 has the first sample only, whose loss at (1, 0) is 1/2.

    In round 2 the second arrives, whose loss there is 4/2. Half of all samples are new, so the
    loss of all rises by (2 - 1/2)/2, from 1/2 to the mean of both, 5/4.
    """
    client = receiving([0], [1], loss_rise=100)
    first = client.run_round(replace(ORDER, local_steps=1), ClientState())
    assert first.samples == 1
    order = replace(ORDER, round_index=2, weights=torch.tensor([1.0, 0.0]))
    reply = client.run_round(order, first.state)
    assert reply.samples == 2
    assert reply.figures is not None
    assert reply.figures.loss == 0.5
    assert reply.figures.drift == pytest.approx(0.75)
    assert reply.measured_samples == 1  # the new one


def test_gradient_variance_is_measured_anew_when_arrivals_raise_the_loss() -> None:
    """The loss of the old batch stays at 1/2; with what has arrived it is 5/4, more by 3/4.

    Gradients at (1, 0) are (-1, 0) and (0, -4): their mean is (-1/2, -2), M = 2 (1/4 + 4).
    """
    there = torch.tensor([1.0, 0.0])
    start = replace(ORDER, weights=there, local_steps=1, learning_rate=1e-6)
    for rise, measured in ((0.7, 2), (0.8, 0)):
        client = receiving([0], [1], loss_rise=rise)
        state = client.run_round(start, ClientState()).state
        assert state.gradient_variance == 0.0  # of a single sample
        reply = client.run_round(replace(start, round_index=2), state)
        assert reply.measured_samples == 1 + measured
        expected = 8.5 if measured else 0.0
        assert reply.gradient_variance == pytest.approx(expected)


def test_without_arrivals_there_is_no_drift_and_nothing_to_pay() -> None:
    client = receiving([0, 1])
    state = client.run_round(ORDER, ClientState()).state
    reply = client.run_round(replace(ORDER, round_index=2, weights=torch.tensor([1.0, 1.0])), state)
    assert reply.figures is not None
    assert reply.figures.drift == 0.0
    assert reply.measured_samples == 0


def test_drift_is_measured_on_no_more_samples_than_set() -> None:
    client = receiving([0], [1, 0, 1, 0, 1], drift_samples=3, loss_rise=100)
    state = client.run_round(ORDER, ClientState()).state
    reply = client.run_round(replace(ORDER, round_index=2), state)
    assert reply.measured_samples == 3


def test_batches_come_from_the_buffer_and_are_no_larger() -> None:
    """With the second sample alone, a step of 0.5 leads from 0 to 2 in its direction."""
    reply = receiving([1]).run_round(replace(ORDER, batch_size=60, local_steps=1), ClientState())
    assert reply.weights.tolist() == [0.0, 2.0]
    memory = reply.state.memory
    assert memory is not None
    assert memory.batch.tolist() == [1]


def test_without_probes_only_the_buffer_is_kept() -> None:
    order = replace(ORDER, probe=False, remember=False)
    reply = receiving([0, 1]).run_round(order, ClientState())
    assert reply.state.memory is None
    assert reply.state.buffer is not None
    assert reply.state.buffer.seen == reply.samples == 2


def test_a_client_without_any_sample_cannot_take_part() -> None:
    client = receiving([], [1])
    with pytest.raises(NoSampleYet, match="client 0 has no sample in round 1"):
        client.run_round(ORDER, ClientState())
    assert client.run_round(replace(ORDER, round_index=2), ClientState()).samples == 1
