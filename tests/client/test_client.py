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
from dynamite_fl.client.probe_settings import ProbeSettings
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


def test_the_paper_compares_two_batches_at_the_same_model_by_hand() -> None:
    """Algorithm 3, line 17. At (1, 1) the loss of the first sample is 1/2, of the second 0.

    So M_i is due in a round with the first sample after one with the second, and in no other. The
    global model stays where it is: a loss that falls in training hides no difference of batches.
    Gradients there are (-1, 0) and (0, 0), at a distance of 1/2 from their mean: M = 2 (1/4).
    """
    client = client_of([0, 1], loss_rise=0.4)
    order = replace(
        ORDER, free_probes=True, weights=torch.tensor([1.0, 1.0]), batch_size=1, local_steps=1
    )
    state, old, is_due, is_measured = ClientState(), -1, [], []
    for k in range(1, 41):
        reply = client.run_round(replace(order, round_index=k), state)
        assert reply.state.memory is not None
        new = int(reply.state.memory.batch[0])
        is_due.append(k == 1 or (new, old) == (0, 1))
        is_measured.append(reply.measured_samples == 2)
        assert reply.gradient_variance == pytest.approx(0.5)
        state, old = reply.state, new
    assert is_measured == is_due
    assert 5 < sum(is_due) < 20


def test_the_probe_of_the_paper_by_hand() -> None:
    """Both samples in every batch, as in ``test_one_round_by_hand``: round 1 ends at (0.875, 1).

    There F = (1.125^2/2 + 0)/2 and g = (-0.5625, 0). At the new global model (1, 1), F = 0.25 and
    g = (-0.5, 0), so that the distance is 0.125 and the change of the gradient 0.0625.
    """
    client, order = client_of([0, 1]), replace(ORDER, free_probes=True)
    state = client.run_round(order, ClientState()).state
    order = replace(order, round_index=2, weights=torch.tensor([1.0, 1.0]))
    reply = client.run_round(order, state)
    figures, change = reply.figures, 1.125**2 / 4 - 0.25
    assert figures is not None
    assert figures.loss == 0.25
    assert figures.quadratic_bound == pytest.approx(change / 0.125**2)
    assert figures.lipschitz == pytest.approx(change / 0.125)
    assert figures.smoothness == pytest.approx(0.0625 / 0.125)
    assert figures.pl_constant == pytest.approx(0.25 / 0.5)
    assert math.isnan(figures.drift)
    assert reply.gradient is not None
    assert reply.gradient.tolist() == [-0.5, 0.0]


def test_the_paper_draws_every_batch_anew() -> None:
    """At one local step, too; a charged probe begins with the last batch again."""
    order = replace(ORDER, batch_size=1, local_steps=1)
    changes = {}
    for free in (True, False):
        client, state, used = client_of([0, 1]), ClientState(), []
        for k in range(1, 41):
            reply = client.run_round(replace(order, round_index=k, free_probes=free), state)
            state = reply.state
            assert state.memory is not None
            used.append(int(state.memory.batch[0]))
            assert (reply.figures is not None) == (k > 1 if free else k % 2 == 0)
        changes[free] = sum(a != b for a, b in zip(used[::2], used[1::2], strict=True))
    assert changes[False] == 0
    assert changes[True] > 5  # of 20 pairs


def test_a_charged_probe_pays_for_the_loss_of_a_new_batch() -> None:
    """It measures M_i in the first round, and compares with a new batch in the next ones."""
    client = client_of([0, 1])
    first = client.run_round(ORDER, ClientState())
    assert first.measured_samples == 2
    order = replace(ORDER, round_index=2, weights=torch.tensor([1.0, 1.0]), batch_size=1)
    assert client.run_round(order, first.state).measured_samples == 1


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
    assert reply.measured_samples == 1 + 2  # the new one, and a new batch


def test_gradient_variance_is_measured_anew_when_arrivals_raise_the_loss() -> None:
    """The loss of the old batch is 1/2; that of a batch with the new sample 5/4, more by 3/4.

    A charged probe counts it less, as the old batch has one sample of the two that M_i is measured
    on: 3/4 sqrt(1/2) = 0.53. Gradients at (1, 0) are (-1, 0) and (0, -4): their mean is
    (-1/2, -2), M = 2 (1/4 + 4).
    """
    start = replace(ORDER, weights=torch.tensor([1.0, 0.0]), local_steps=1, learning_rate=1e-6)
    for free, rise, is_due in (
        (True, 0.7, True),
        (True, 0.8, False),
        (False, 0.5, True),
        (False, 0.6, False),
    ):
        client = receiving([0], [1], loss_rise=rise, variance_samples=2)
        order = replace(start, free_probes=free)
        state = client.run_round(order, ClientState()).state
        assert state.gradient_variance == 0.0  # of a single sample
        reply = client.run_round(replace(order, round_index=2), state)
        assert reply.gradient_variance == pytest.approx(8.5 if is_due else 0.0)
        compared = 0 if free else 1 + 2  # the new sample, and a new batch
        assert reply.measured_samples == compared + (2 if is_due else 0)


def test_after_arrivals_without_a_probe_gradient_variance_is_due() -> None:
    """No batch from before the arrivals is left to compare with in the next round."""
    client = receiving([0], [1], loss_rise=100)
    state = client.run_round(ORDER, ClientState()).state
    between = client.run_round(replace(ORDER, round_index=2, probe=False), state)
    assert between.measured_samples == 0
    reply = client.run_round(replace(ORDER, round_index=3), between.state)
    assert reply.gradient_variance == pytest.approx(10.0)


def test_without_arrivals_there_is_no_drift() -> None:
    client = receiving([0, 1])
    state = client.run_round(ORDER, ClientState()).state
    reply = client.run_round(replace(ORDER, round_index=2, weights=torch.tensor([1.0, 1.0])), state)
    assert reply.figures is not None
    assert reply.figures.drift == 0.0
    assert reply.measured_samples == 2  # a new batch


def test_drift_is_measured_on_no_more_samples_than_set() -> None:
    client = receiving([0], [1, 0, 1, 0, 1], drift_samples=3, loss_rise=100)
    state = client.run_round(ORDER, ClientState()).state
    reply = client.run_round(replace(ORDER, round_index=2), state)
    assert reply.measured_samples == 3 + 2  # and a new batch


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
