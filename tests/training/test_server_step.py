"""The step from an averaged round to the new global model."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.training.aggregate import average
from dynamite_fl.training.server_optimizer import SERVER_OPTIMIZERS, make_server
from dynamite_fl.training.server_step import AveragedRound, ServerState, server_step

NUMBERS = 6


def averaged_round(seed: int, numbers: int = NUMBERS) -> AveragedRound:
    """Return a round of three clients with random models, of which the first numbers are kept."""
    random = torch.Generator().manual_seed(seed)
    weights, *updates = torch.randn(4, NUMBERS, generator=random)[:, :numbers]
    samples = np.array([1.0, 2.0, 5.0])
    return AveragedRound(weights, average(updates, samples), updates, samples / 8)


@given(st.sampled_from(list(SERVER_OPTIMIZERS)), st.integers(0, NUMBERS), st.integers(0, 99))
def test_statistics_are_averaged_and_do_not_affect_the_weights(
    name: str, trained: int, seed: int
) -> None:
    server, state, state_alone = make_server(name), ServerState(), ServerState()
    for index in range(3):
        whole = averaged_round(seed + index)
        weights, state = server_step(server, whole, state, trained)
        assert torch.equal(weights[trained:], whole.average[trained:])
        alone = averaged_round(seed + index, trained)
        weights_alone, state_alone = server_step(server, alone, state_alone, trained)
        assert torch.equal(weights[:trained], weights_alone)


def test_an_average_is_the_new_model_to_the_bit() -> None:
    given_round = averaged_round(0)
    weights, _ = server_step(make_server("average"), given_round, ServerState(), NUMBERS)
    assert torch.equal(weights, given_round.average)
    assert weights.dtype == torch.float32


def test_movements_and_their_norms_by_hand() -> None:
    weights = torch.tensor([1.0, 1.0])
    updates = [torch.tensor([1.0, 3.0]), torch.tensor([5.0, 1.0])]
    shares = np.array([0.75, 0.25])
    averaged = AveragedRound(weights, torch.tensor([2.0, 2.5]), updates, shares)
    assert averaged.movement.tolist() == [-1.0, -1.5]
    assert averaged.squared_norm == pytest.approx(1 + 2.25)
    assert averaged.mean_squared_norm == pytest.approx(0.75 * 4 + 0.25 * 16)
    assert averaged.first(1).mean_squared_norm == pytest.approx(0.25 * 16)


def test_a_stretched_round_moves_trained_weights_farther_and_nothing_else() -> None:
    """From 1 to 0.5 is a movement of 0.5; one and a half times that leads to 0.25."""
    old, new = torch.tensor([1.0, 1.0]), torch.tensor([0.5, 0.5])
    averaged = AveragedRound(old, new, [new], np.array([1.0]))
    assert averaged.stretched(1.5, trained=1).average.tolist() == [0.25, 0.5]
    assert averaged.stretched(1.0, trained=1) is averaged


def test_a_stretched_round_has_the_diversity_of_the_round() -> None:
    """A client that is alone agrees with itself, however far the average is stretched."""
    old, new = torch.tensor([1.0, 1.0]), torch.tensor([0.5, 0.25])
    for factor in (0.1, 1.5):
        stretched = AveragedRound(old, new, [new], np.array([1.0])).stretched(factor, trained=2)
        assert stretched.mean_squared_norm == pytest.approx(stretched.squared_norm)
