import pytest
import torch

from dynamite_fl.task.models import convolutional_network
from dynamite_fl.task.response_norm import LocalResponseNorm


@pytest.mark.parametrize("channels", [1, 4, 9, 32])
@pytest.mark.parametrize("magnitude", [0.1, 1.0, 100.0])
def test_values_and_gradients_are_those_of_torch(channels: int, magnitude: float) -> None:
    torch.manual_seed(channels)
    ours = LocalResponseNorm(channels, scale=1 / 1024).double()  # a scale that floats hold
    theirs = torch.nn.LocalResponseNorm(9, alpha=9 / 1024, beta=0.75, k=1.0)
    inputs = magnitude * torch.randn(2, channels, 5, 3, dtype=torch.float64)
    direction = torch.randn_like(inputs)
    results = []
    for norm in (ours, theirs):
        given = inputs.clone().requires_grad_()
        outputs = norm(given)
        (gradient,) = torch.autograd.grad(outputs, given, direction)
        results.append((outputs, gradient))
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-12)


def test_single_precision() -> None:
    inputs = 30 * torch.randn(3, 32, 14, 14)
    theirs = torch.nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)
    torch.testing.assert_close(LocalResponseNorm(32)(inputs), theirs(inputs))


def test_the_gradient_is_that_of_finite_differences() -> None:
    norm = LocalResponseNorm(4, radius=1, scale=0.5).double()
    inputs = torch.randn(2, 4, 2, 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norm, (inputs,))


def test_a_stored_model_does_not_contain_the_band() -> None:
    model = convolutional_network((1, 8, 8), 10)
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
