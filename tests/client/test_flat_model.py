import pytest
import torch
from torch import nn

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.task.registry import make_task
from dynamite_fl.task.task import Task
from tests.client.tasks import line_task


def test_weights_are_views_by_name() -> None:
    model = FlatModel(make_task("perceptron", "digits"), seed=0)
    named = model.named(model.first_weights)
    assert sum(part.numel() for part in named.values()) == len(model)
    for name, weight in model.module.named_parameters():
        assert torch.equal(named[name], weight)


def test_gradient_is_autograds() -> None:
    task = make_task("perceptron", "digits")
    model = FlatModel(task, seed=3)
    x, y = task.train_inputs[:7], task.train_targets[:7]
    loss, gradient = model.gradient(model.first_weights, x, y)
    expected = task.loss(model.module(x), y).mean()
    torch.autograd.backward(expected)
    assert float(loss) == pytest.approx(float(expected.detach()), rel=1e-6)
    found = model.named(gradient)
    for name, weight in model.module.named_parameters():
        assert weight.grad is not None
        assert torch.allclose(found[name], weight.grad, atol=1e-6)


def test_seeds_decide_about_first_weights_and_leave_others_alone() -> None:
    task = make_task("perceptron", "digits")
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    same = [FlatModel(task, seed=seed).first_weights for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(same[0], same[1])
    assert not torch.equal(same[0], same[2])


def test_models_that_keep_more_than_weights_are_refused() -> None:
    x = torch.zeros(4, 3)
    task = Task(
        name="normalised",
        make_model=lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)),
        loss=lambda outputs, targets: outputs.sum(1) - targets,
        correct=lambda outputs, targets: outputs[:, 0] > targets,
        train_inputs=x,
        train_targets=x[:, 0],
        test_inputs=x,
        test_targets=x[:, 0],
    )
    with pytest.raises(ValueError, match="use group normalisation instead"):
        FlatModel(task, seed=0)


def test_the_penalty_is_part_of_loss_and_gradient() -> None:
    task = line_task([[1.0, 0.0]], [2.0], start=(4.0, 2.0), penalty=0.5)
    model = FlatModel(task, seed=0)
    loss, gradient = model.gradient(model.first_weights, task.train_inputs, task.train_targets)
    assert float(loss) == 2.0 + 0.25 * 20  # (4 - 2)^2/2 + 0.5/2 |w|^2
    assert gradient.tolist() == [2.0 + 2.0, 0.0 + 1.0]
