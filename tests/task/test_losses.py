import math

import pytest
import torch
from torch import nn

from dynamite_fl.task import losses
from dynamite_fl.task.models import support_vector_machine


def test_squared_hinge_and_its_gradient_by_hand() -> None:
    # w = (1, -1); samples (2, 1), (0, 1), (3, 1) of labels 0, 3, 1: y = 1, -1, -1;
    # w'x = 1, -1, 2; margins 1, 1, -2; losses 0, 0, 9/2; gradient of the last -y(1 - yw'x)x.
    model = support_vector_machine(2)
    (weight,) = model.parameters()
    with torch.no_grad():
        weight.copy_(torch.tensor([[1.0, -1.0]]))
    inputs, labels = torch.tensor([[2.0, 1], [0, 1], [3, 1]]), torch.tensor([0, 3, 1])
    loss = losses.squared_hinge(model(inputs), labels)
    assert loss.tolist() == [0.0, 0.0, 4.5]
    (gradient,) = torch.autograd.grad(loss.sum(), weight)
    assert gradient.tolist() == [[9.0, 3.0]]
    assert losses.sign_is_parity(model(inputs), labels).tolist() == [True, True, False]


def test_squared_hinge_is_a_half_for_zero_weights() -> None:
    outputs = support_vector_machine(3)(torch.rand(4, 3))
    labels = torch.arange(4)
    assert losses.squared_hinge(outputs, labels).tolist() == [0.5] * 4
    assert not losses.sign_is_parity(outputs, labels).any()


def test_cross_entropy_by_hand() -> None:
    outputs = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    loss = losses.cross_entropy(outputs, torch.tensor([0, 1]))
    torch.testing.assert_close(loss, torch.tensor([math.log(4 / 3), math.log(2)]))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_mean_of_the_losses_of_each_sample_is_torchs_loss(smoothing: float) -> None:
    outputs, labels = torch.randn(7, 4), torch.arange(7) % 4
    loss = nn.CrossEntropyLoss(label_smoothing=smoothing)
    each = losses.per_sample_loss(loss)
    assert each is not None
    assert each(outputs, labels).shape == (7,)
    torch.testing.assert_close(each(outputs, labels).mean(), loss(outputs, labels))


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(weight=torch.ones(4)),
        nn.CrossEntropyLoss(reduction="sum"),
        nn.CrossEntropyLoss(ignore_index=2),
        nn.MSELoss(),
        lambda outputs, targets: (outputs - targets).square().sum(1),
    ],
)
def test_other_losses_are_not_known_for_each_sample(loss: object) -> None:
    assert losses.per_sample_loss(loss) is None
