from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dynamite_fl.client.client import Client
from dynamite_fl.client.executors.stacked import run_stacked
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import ClientState
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.sketch import sketch
from dynamite_fl.client.step_path import PathRecorder, batch_gradient_variance
from dynamite_fl.task.registry import make_task
from tests.client.test_client import ORDER, client_of
from tests.models import batch_norm_net, tanh_net, task_of


def test_the_path_of_a_round_by_hand() -> None:
    """As in ``test_one_round_by_hand``: from (0, 0) to (0.5, 1), then to (0.875, 1).

    The gradients are (-1, -2) and (-0.75, 0): half their squared distance, times two samples,
    is 0.0625 + 4.
    """
    reply = client_of([0, 1]).run_round(replace(ORDER, path=True), ClientState())
    assert reply.path is not None
    assert reply.path.first_half.tolist() == sketch(torch.tensor([-0.5, -1.0])).tolist()
    assert np.isnan(reply.path.gradient_variance)  # both batches are all there is
    recorder = PathRecorder(torch.zeros(2), trained=2)
    recorder.record_gradients(torch.tensor([[-1.0, -2.0]]))
    recorder.record_first_half(torch.tensor([[0.5, 1.0]]), None)
    recorder.record_gradients(torch.tensor([[-0.75, 0.0]]))
    assert recorder.paths(torch.tensor([[0.875, 1.0]]), [2], stored=[4])[
        0
    ].gradient_variance == pytest.approx(4.0625)
    assert client_of([0, 1]).run_round(ORDER, ClientState()).path is None


def test_a_single_step_is_its_own_first_half_and_shows_no_noise() -> None:
    recorder = PathRecorder(torch.zeros(2), trained=2)
    recorder.record_gradients(torch.tensor([[-2.0, -2.0]]))
    recorder.record_first_half(torch.tensor([[1.0, 1.0]]), None)
    (path,) = recorder.paths(torch.tensor([[1.0, 1.0]]), [4], stored=[99])
    assert path.first_half.tolist() == sketch(torch.tensor([-1.0, -1.0])).tolist()
    assert np.isnan(path.gradient_variance)


def test_the_early_share_by_hand() -> None:
    """The clients move to (3, 4) and to (0, 2), and were at (1, 1) and (2, 0) after a few steps.

    Along the whole movements, these are (3 + 4) / 25 and 0 of them.
    """
    recorder = PathRecorder(torch.zeros(2), trained=2)
    recorder.record_early(torch.tensor([[1.0, 1.0], [2.0, 0.0]]))
    last = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    recorder.record_first_half(last, None)
    shares = [path.early_share for path in recorder.paths(last, [1, 1], stored=[9, 9])]
    assert shares == pytest.approx([7 / 25, 0.0])


@pytest.mark.parametrize(("local_steps", "is_long"), [(31, False), (32, True)])
def test_only_long_rounds_have_an_early_share(local_steps: int, is_long: bool) -> None:
    order = replace(ORDER, path=True, local_steps=local_steps, learning_rate=0.01)
    path = client_of([0, 1]).run_round(order, ClientState()).path
    assert path is not None
    assert np.isfinite(path.early_share) == is_long
    if is_long:  # the steps of a quadratic loss become shorter and shorter
        assert 4 / local_steps < path.early_share < 1


def test_noise_is_told_from_movement() -> None:
    """Gradients g + k d + noise of variance 4 in each of 500 entries: M / s is 2000."""
    generator = torch.Generator().manual_seed(1)
    moved = 10 * torch.arange(3)[:, None, None] * torch.ones(300, 500)
    gradients = moved + 2 * torch.randn(3, 300, 500, generator=generator)
    found = batch_gradient_variance(list(gradients))
    # chi-square: the deviation of one estimate is 2000 sqrt(2/500)
    assert float(found.mean()) == pytest.approx(2000, abs=4 * 2000 * (2 / 500 / 300) ** 0.5)


@pytest.mark.parametrize("local_steps", [1, 2, 3, 7, 33])
@pytest.mark.parametrize(("model", "remember"), [("softmax", False), ("svm", True)])
def test_stacked_clients_have_the_paths_of_single_ones(
    model: str, remember: bool, local_steps: int
) -> None:
    task = make_task(model, "digits")
    flat = FlatModel(task, seed=0)
    clients = [
        Client(flat, task.train, np.arange(start, start + 50), seed=3) for start in (0, 200, 700)
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
        run_stacked(clients, orders, states), clients, orders, strict=True
    ):
        expected = client.run_round(order, ClientState()).path
        assert found.path is not None
        assert expected is not None
        torch.testing.assert_close(found.path.first_half, expected.first_half, rtol=1e-4, atol=1e-6)
        assert found.path.gradient_variance == pytest.approx(
            expected.gradient_variance, rel=1e-3, nan_ok=True
        )


def round_of(
    optimizer: Optimizer, local_steps: int, model: Any = tanh_net
) -> tuple[Any, list[Any]]:
    """Return the path of a round, and the batches that it was taken on."""
    task = task_of(model)
    flat = FlatModel(task, seed=0)
    order = replace(
        ORDER,
        weights=flat.first_weights,
        local_steps=local_steps,
        batch_size=7,
        learning_rate=0.05,
        probe=False,
        remember=False,
        path=True,
    )
    client = Client(flat, task.train, np.arange(90), seed=3, optimizer=optimizer)
    batches = [task.train.batch(rows) for rows in client.batches(order, ClientState())]
    return client.run_round(order, ClientState()).path, batches


OPTIMIZERS: dict[str, tuple[Optimizer, Any]] = {
    "momentum": (
        Optimizer("SGD", momentum=0.9),
        lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.9),
    ),
    "Adam": (Optimizer("Adam"), lambda weights: torch.optim.Adam(weights, lr=0.05)),
}


@pytest.mark.parametrize("local_steps", [1, 2, 5])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_sum_of_gradients_is_that_of_torchs_own_loop(name: str, local_steps: int) -> None:
    optimizer, make = OPTIMIZERS[name]
    path, batches = round_of(optimizer, local_steps)
    model = task_of(tanh_net).new_model(0)
    theirs = make(model.parameters())
    first = torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])
    total = torch.zeros_like(first)
    for inputs, labels in batches[: -(-local_steps // 2)]:
        theirs.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(model(inputs), labels))
        grads = [
            weight.grad.reshape(-1) for weight in model.parameters() if weight.grad is not None
        ]
        total += torch.cat(grads)
        theirs.step()
    last = torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])
    torch.testing.assert_close(path.gradient_sum, sketch(total))
    torch.testing.assert_close(path.first_half, sketch(first - last))


@pytest.mark.parametrize("optimizer", [Optimizer(clip_norm=1e-3), Optimizer(proximal=5.0)])
def test_the_sum_is_of_gradients_before_they_are_changed(optimizer: Optimizer) -> None:
    """In one step from the global model, it is the gradient of the first batch."""
    path, batches = round_of(optimizer, local_steps=1)
    flat = FlatModel(task_of(tanh_net), seed=0)
    _, gradient = flat.gradient(flat.first_weights, batches[0])
    torch.testing.assert_close(path.gradient_sum, sketch(gradient))


def test_with_plain_steps_the_sum_follows_from_the_movement() -> None:
    path, _ = round_of(Optimizer(), local_steps=4)
    assert path.gradient_sum is None
    halved, _ = round_of(Optimizer(torch.optim.SGD), local_steps=4)  # the same, but not known to be
    torch.testing.assert_close(halved.gradient_sum, path.first_half / 0.05, rtol=1e-4, atol=1e-5)


def test_buffers_are_no_part_of_the_path() -> None:
    path, _ = round_of(Optimizer("Adam"), 3, batch_norm_net)
    trained = FlatModel(task_of(batch_norm_net), 0).trained
    assert path.first_half.shape == path.gradient_sum.shape == sketch(torch.zeros(trained)).shape
