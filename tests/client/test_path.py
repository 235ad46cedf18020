from dataclasses import replace

import numpy as np
import pytest
import torch

from dynamite_fl.client.client import Client, ClientState
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.client.path import Tracker, noise_of
from dynamite_fl.client.sketch import sketch, sketch_size
from dynamite_fl.client.stacked import play_stacked
from dynamite_fl.task.tasks import make_task
from tests.client.test_client import ORDER, client_of


def test_sketches_are_linear_and_keep_inner_products() -> None:
    """The error of an inner product has mean 0 and deviation about |x| |y| / sqrt(m)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 5000, generator=generator, dtype=torch.float64)
    y = torch.randn(400, 5000, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(sketch(x) + 2 * sketch(y), sketch(x + 2 * y))
    off = (sketch(x) * sketch(y)).sum(1) - (x * y).sum(1)
    relative = off / (x.norm(dim=1) * y.norm(dim=1)) * sketch_size(5000) ** 0.5
    assert abs(float(relative.mean())) < 4 / 400**0.5
    assert 0.8 < float(relative.std()) < 1.2


def test_a_short_vector_is_not_shortened() -> None:
    x = torch.tensor([3.0, -1.0, 2.0])
    assert sketch(x).abs().tolist() == [3.0, 1.0, 2.0]


def test_the_path_of_a_round_by_hand() -> None:
    """As in ``test_one_round_by_hand``: from (0, 0) to (0.5, 1), then to (0.875, 1).

    The gradients are (-1, -2) and (-0.75, 0): half their squared distance, times two samples,
    is 0.0625 + 4.
    """
    reply = client_of([0, 1]).play(replace(ORDER, path=True), ClientState())
    assert reply.path is not None
    assert reply.path.head.tolist() == sketch(torch.tensor([-0.5, -1.0])).tolist()
    assert np.isnan(reply.path.gradient_variance)  # both batches are all there is
    tracker = Tracker(torch.zeros(2), 2)
    tracker.step(0, torch.tensor([0.5, 1.0]), torch.tensor([-1.0, -2.0]))
    tracker.step(1, torch.tensor([0.875, 1.0]), torch.tensor([-0.75, 0.0]))
    assert tracker.path(2, at_hand=4).gradient_variance == pytest.approx(4.0625)
    assert client_of([0, 1]).play(ORDER, ClientState()).path is None


def test_a_single_step_is_its_own_head_and_shows_no_noise() -> None:
    tracker = Tracker(torch.zeros(2), 1)
    tracker.step(0, torch.tensor([1.0, 1.0]), torch.tensor([-2.0, -2.0]))
    path = tracker.path(4, at_hand=99)
    assert path.head.tolist() == sketch(torch.tensor([-1.0, -1.0])).tolist()
    assert np.isnan(path.gradient_variance)


def test_noise_is_told_from_movement() -> None:
    """Gradients g + k d + noise of variance 4 in each of 500 entries: M / s is 2000."""
    generator = torch.Generator().manual_seed(1)
    moved = 10 * torch.arange(3)[:, None, None] * torch.ones(300, 500)
    gradients = moved + 2 * torch.randn(3, 300, 500, generator=generator)
    found = noise_of(list(gradients))
    # chi-square: the deviation of one estimate is 2000 sqrt(2/500)
    assert float(found.mean()) == pytest.approx(2000, abs=4 * 2000 * (2 / 500 / 300) ** 0.5)


@pytest.mark.parametrize("local_steps", [1, 2, 3, 7])
@pytest.mark.parametrize(("model", "remember"), [("softmax", False), ("svm", True)])
def test_stacked_clients_have_the_paths_of_single_ones(
    model: str, remember: bool, local_steps: int
) -> None:
    task = make_task(model, "digits")
    flat = FlatModel(task, seed=0)
    clients = [
        Client(flat, task.train_inputs, task.train_targets, np.arange(start, start + 50), seed=3)
        for start in (0, 200, 700)
    ]
    orders = [
        replace(
            ORDER,
            client=place,
            weights=flat.first_weights,
            local_steps=local_steps,
            batch_size=size,
            learning_rate=0.1,
            probe=False,
            remember=remember,
            path=True,
        )
        for place, size in enumerate((4, 9, 20))
    ]
    states = [ClientState()] * 3
    for found, client, order in zip(
        play_stacked(clients, orders, states), clients, orders, strict=True
    ):
        expected = client.play(order, ClientState()).path
        assert found.path is not None
        assert expected is not None
        torch.testing.assert_close(found.path.head, expected.head, rtol=1e-4, atol=1e-6)
        assert found.path.gradient_variance == pytest.approx(
            expected.gradient_variance, rel=1e-3, nan_ok=True
        )
