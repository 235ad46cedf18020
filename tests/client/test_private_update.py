"""What a client sends: its movement clipped, its share of the noise, and nothing else."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dynamite_fl.client.gaussian_noise import KeyedNoise
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.private_update import NodePrivacy, clipped, movement, private_reply
from dynamite_fl.client.probe import ProbeFigures
from dynamite_fl.client.step_path import StepPath

anything = st.lists(st.floats(width=64, allow_subnormal=False), min_size=1, max_size=6)


def reply_of(weights: Tensor) -> Reply:
    """Return a reply with every measurement that there is."""
    return Reply(
        weights=weights,
        samples=40,
        figures=ProbeFigures(*[1.0] * len(ProbeFigures.__dataclass_fields__)),
        gradient=torch.ones(3),
        gradient_variance=2.0,
        measured_samples=5,
        state=ClientState(),
        path=StepPath(torch.ones(3), 1.0),
    )


def order_of(weights: Tensor, round_index: int = 3, client: int = 2) -> Order:
    return Order(client, round_index, weights, 1, 8, 0.1, probe=False, remember=False)


@given(anything, st.floats(1e-6, 1e6))
def test_no_vector_is_longer_than_the_clip_norm(numbers: list[float], clip_norm: float) -> None:
    vector = torch.tensor(numbers, dtype=torch.float64)
    part, _ = clipped(vector, clip_norm)
    exact = math.hypot(*part.tolist())  # computed by another library
    assert exact <= clip_norm


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6))
def test_clipping_keeps_the_direction_and_short_vectors(numbers: list[float]) -> None:
    vector = torch.tensor(numbers, dtype=torch.float64)
    length = math.hypot(*numbers)
    part, was_within = clipped(vector, 10.0)
    if length <= 9.99:
        assert was_within
        assert torch.equal(part, vector)
    elif length > 10:
        assert not was_within
        assert torch.allclose(part, 10 * vector / length)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_counts_as_nothing(bad: float) -> None:
    part, was_within = clipped(torch.tensor([1.0, bad]).double(), 1.0)
    assert part.tolist() == [0.0, 0.0]
    assert not was_within


def test_huge_numbers_are_clipped_although_their_norm_is_infinite() -> None:
    part, _ = clipped(torch.tensor([1e300, -1e300], dtype=torch.float64), 1.0)
    assert torch.allclose(part, torch.tensor([0.5**0.5, -(0.5**0.5)]).double())


def test_a_movement_has_other_parts_at_its_end() -> None:
    moved = movement(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 4.0]), [torch.tensor([7.0])])
    assert moved.tolist() == [2.0, -3.0, 7.0]
    assert moved.dtype == torch.float64


def test_a_private_reply_has_the_noisy_update_and_no_measurement() -> None:
    size, deviation = 40_000, 0.25
    weights = torch.zeros(size)
    local = torch.full((size,), 30 / math.sqrt(size))  # a movement of norm 30
    privacy = NodePrivacy(2.0, deviation, KeyedNoise(seed=0))
    sent = private_reply(reply_of(local), order_of(weights), privacy)
    assert (sent.figures, sent.gradient, sent.gradient_variance, sent.path) == (None,) * 4
    noise = sent.weights.double().numpy() - 2 / math.sqrt(size)
    assert abs(noise.mean()) < 5 * deviation / math.sqrt(size)
    assert abs(noise.std() / deviation - 1) < 5 / math.sqrt(2 * size)


def test_clients_and_rounds_have_noise_of_their_own() -> None:
    weights = torch.zeros(50)
    privacy = NodePrivacy(1.0, 1.0, KeyedNoise(seed=0))
    sent = [
        private_reply(reply_of(weights), order_of(weights, round_index, client), privacy).weights
        for round_index in (1, 2)
        for client in (0, 1)
    ]
    for place, first in enumerate(sent):
        for second in sent[:place]:
            assert not np.isclose(first, second).any()


def test_without_privacy_a_reply_is_sent_as_it_is() -> None:
    reply = reply_of(torch.ones(3))
    assert private_reply(reply, order_of(torch.zeros(3)), None) is reply
