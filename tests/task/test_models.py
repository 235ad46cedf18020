from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dynamite_fl.task import losses
from dynamite_fl.task.models import (
    convolutional_network,
    count_parameters,
    perceptron,
    softmax_regression,
    support_vector_machine,
)

MAKERS: dict[str, Callable[[], nn.Module]] = {
    "softmax": lambda: softmax_regression(64, 10),
    "svm": lambda: support_vector_machine(64),
    "perceptron": lambda: perceptron(64, 10, hidden=5),
    "cnn": lambda: convolutional_network((1, 8, 8), 10),
}


def test_parameter_counts() -> None:
    # conv 832 + conv 25,632 + dense 7 * 7 * 32 * 256 + 256 + dense 2,570
    assert count_parameters(convolutional_network((1, 28, 28), 10)) == 430_698
    assert count_parameters(convolutional_network((3, 32, 32), 10)) == 555_178
    assert count_parameters(convolutional_network((1, 28, 28), 47)) == 430_698 + 37 * 257
    assert count_parameters(perceptron(64, 10)) == 65 * 64 + 65 * 10


def test_the_cnn_has_the_nine_layers_of_the_paper() -> None:
    model = convolutional_network((1, 28, 28), 10)
    names = [type(layer).__name__ for layer in model.children()]
    assert names == [
        *("Conv2d", "ReLU", "MaxPool2d", "LocalResponseNorm"),
        *("Conv2d", "ReLU", "LocalResponseNorm", "MaxPool2d"),
        *("Flatten", "Linear", "ReLU", "Linear"),
    ]


def test_first_weights() -> None:
    torch.manual_seed(0)
    for name, parameter in convolutional_network((1, 28, 28), 10).named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0.1).all()
        else:
            assert parameter.abs().max() <= 0.2
            assert abs(parameter.mean()) < 0.01
            # A normal cut at two deviations has 0.88 of its deviation left.
            assert parameter.std().item() == pytest.approx(0.088, abs=0.005)
    for model in (softmax_regression(9, 3), support_vector_machine(9)):
        assert all((parameter == 0).all() for parameter in model.parameters())


def test_a_cnn_refuses_tiny_images() -> None:
    with pytest.raises(ValueError, match="at least 4x4"):
        convolutional_network((1, 3, 8), 10)


@pytest.mark.parametrize("name", MAKERS)
def test_gradients_of_single_samples_average_to_that_of_the_batch(name: str) -> None:
    torch.manual_seed(1)
    model = MAKERS[name]()
    loss = losses.squared_hinge if name == "svm" else losses.cross_entropy
    inputs, targets = torch.rand(6, 1, 8, 8), torch.arange(6)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def sample_loss(weights: dict[str, Tensor], one: Tensor, target: Tensor) -> Tensor:
        outputs = functional_call(model, weights, (one[None],))
        return loss(outputs, target[None]).squeeze(0)

    each = vmap(grad(sample_loss), in_dims=(None, 0, 0))(weights, inputs, targets)
    parameters = dict(model.named_parameters())
    whole = torch.autograd.grad(loss(model(inputs), targets).mean(), list(parameters.values()))
    for key, gradient in zip(parameters, whole, strict=True):
        torch.testing.assert_close(each[key].mean(dim=0), gradient)


@pytest.mark.parametrize("name", MAKERS)
def test_models_of_several_clients_run_as_one(name: str) -> None:
    torch.manual_seed(2)
    members = [MAKERS[name]() for _ in range(3)]
    for member in members:
        for parameter in member.parameters():
            nn.init.normal_(parameter, std=0.1)
    states = [dict(member.named_parameters()) for member in members]
    stacked = {key: torch.stack([state[key].detach() for state in states]) for key in states[0]}
    inputs = torch.rand(3, 4, 1, 8, 8)

    def run(weights: dict[str, Tensor], some: Tensor) -> Tensor:
        outputs = functional_call(members[0], weights, (some,))
        assert isinstance(outputs, Tensor)
        return outputs

    together = vmap(run)(stacked, inputs)
    for member, some, outputs in zip(members, inputs, together, strict=True):
        torch.testing.assert_close(outputs, member(some))
