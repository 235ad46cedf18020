import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dynamite_fl.client.client import Client, ClientState, Order, ProbeSettings
from dynamite_fl.client.flat import FlatModel
from tests.client.tasks import line_task

# Two samples: x = (1, 0) with y = 2, and x = (0, 2) with y = 2.
TASK = line_task([[1.0, 0.0], [0.0, 2.0]], [2.0, 2.0])


def client_of(indices: list[int], **settings: float) -> Client:
    return Client(
        model=FlatModel(TASK, seed=0),
        inputs=TASK.train_inputs,
        targets=TASK.train_targets,
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
    reply = client_of([0, 1]).play(ORDER, ClientState())
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
    state = client.play(ORDER, ClientState()).state
    order = replace(ORDER, round_index=2, weights=torch.tensor([1.0, 1.0]), local_steps=1)
    reply = client.play(order, state)
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
    reply = client_of([0, 1]).play(ORDER, ClientState())
    assert reply.gradient_variance == pytest.approx(10.0)
    assert reply.measured_samples == 2
    assert client_of([0]).play(ORDER, ClientState()).gradient_variance == 0.0


def test_gradient_variance_is_measured_anew_when_the_loss_rises() -> None:
    client = client_of([0, 1], loss_rise=0.5)
    state = client.play(ORDER, ClientState()).state
    calm = client.play(replace(ORDER, round_index=2, weights=torch.tensor([1.0, 1.0])), state)
    assert calm.gradient_variance == pytest.approx(10.0)
    assert calm.measured_samples == 0
    # At (-2, 0): F = (16/2 + 4/2)/2 = 5, more than 2 + 0.5. Gradients (-4, 0) and (0, -4).
    risen = client.play(replace(ORDER, round_index=2, weights=torch.tensor([-2.0, 0.0])), state)
    assert risen.gradient_variance == pytest.approx(16.0)
    assert risen.measured_samples == 2


def test_without_a_probe_nothing_is_kept_or_measured() -> None:
    reply = client_of([0, 1]).play(replace(ORDER, probe=False, remember=False), ClientState())
    assert reply.weights.tolist() == [0.875, 1.0]
    assert reply.figures is None
    assert reply.gradient is None
    assert reply.gradient_variance is None
    assert reply.state.memory is None


def test_models_that_met_say_nothing() -> None:
    client = client_of([0, 1])
    state = client.play(replace(ORDER, local_steps=1), ClientState()).state
    same = client.play(replace(ORDER, round_index=2), state).figures
    assert same is not None
    assert math.isnan(same.smoothness)
    assert math.isnan(same.quadratic_bound)
    assert same.pl_constant == pytest.approx(5 / 4)


def test_the_probe_reuses_the_last_batch() -> None:
    """With batches of one sample, the next round begins with the last round's."""
    client = client_of([0, 1])
    small = replace(ORDER, batch_size=1, local_steps=1)
    state = client.play(small, ClientState()).state
    assert state.memory is not None
    reply = client.play(replace(small, round_index=2, weights=torch.zeros(2)), state)
    assert reply.state.memory is not None
    assert reply.state.memory.batch.tolist() == state.memory.batch.tolist()


def test_a_batch_is_never_larger_than_the_data() -> None:
    reply = client_of([1]).play(replace(ORDER, batch_size=60), ClientState())
    # Its one sample's gradient is 4 w2 - 4: from 0 a step of 0.5 leads to 2, and from there back.
    assert reply.weights.tolist() == [0.0, 0.0]


def test_penalty() -> None:
    task = line_task([[1.0, 0.0]], [2.0], start=(4.0, 2.0), penalty=0.5)
    model = FlatModel(task, seed=0)
    loss, gradient = model.gradient(model.first_weights, task.train_inputs, task.train_targets)
    assert float(loss) == 2.0 + 0.25 * 20  # (4 - 2)^2/2 + 0.5/2 |w|^2
    assert gradient.tolist() == [2.0 + 2.0, 0.0 + 1.0]
