"""The models: softmax regression, a support vector machine, a perceptron, the paper's CNN.

Each function returns a new model. The models have no state but their weights, so that all of them
work under ``torch.func.functional_call`` and ``vmap``. Random first weights are drawn from torch's
generator, whose seed ``Task.new_model`` sets.
"""

import torch
from torch import nn

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.response_norm import LocalResponseNorm


def softmax_regression(features: int, classes: int) -> nn.Module:
    """Return a linear layer with bias, at first zero; its outputs are logits (b, classes).

    Example:
        >>> count_parameters(softmax_regression(784, 10))
        7850
    """
    return nn.Sequential(nn.Flatten(), _zero(nn.Linear(features, classes)))


def support_vector_machine(features: int) -> nn.Module:
    """Return one weight vector without bias, at first zero; its outputs are w'x, (b, 1).

    Example:
        >>> count_parameters(support_vector_machine(784))
        784
    """
    return nn.Sequential(nn.Flatten(), _zero(nn.Linear(features, 1, bias=False)))


def perceptron(features: int, classes: int, hidden: int = 64) -> nn.Module:
    """Return two layers with a ReLU between them; their outputs are logits (b, classes).

    Example:
        >>> count_parameters(perceptron(784, 10))  # 785 * 64 + 65 * 10
        50890
    """
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(features, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def convolutional_network(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Return the paper's CNN of nine layers, that of Wang et al. (2019); outputs are logits.

    The first weights are normal with a deviation of 0.1, cut at two deviations. Biases are 0.1.

    Args:
        shape: The channels, height and width of an image, such as (1, 28, 28) or (3, 32, 32).
        classes: The number of classes.

    Example:
        >>> count_parameters(convolutional_network((3, 32, 32), 10))
        555178
    """
    channels, height, width = shape
    if min(height, width) < 4:
        raise InvalidInput(f"a CNN needs images of at least 4x4 pixels, not {height}x{width}")
    filters, hidden = 32, 256
    model = nn.Sequential(
        nn.Conv2d(channels, filters, kernel_size=5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        LocalResponseNorm(filters),
        nn.Conv2d(filters, filters, kernel_size=5, padding=2),
        nn.ReLU(),
        LocalResponseNorm(filters),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(filters * (height // 4) * (width // 4), hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.trunc_normal_(layer.weight, std=0.1, a=-0.2, b=0.2)
            if layer.bias is not None:
                nn.init.constant_(layer.bias, 0.1)
    # Pooling and normalisation are faster if the channels of a pixel are next to each other.
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def count_parameters(model: nn.Module) -> int:
    """Return how many numbers a model learns."""
    return sum(parameter.numel() for parameter in model.parameters())


def _zero(layer: nn.Linear) -> nn.Linear:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer
