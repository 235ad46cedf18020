"""Sums over the gradients of single samples, from one backward pass of a whole batch.

In a linear or convolutional layer, the gradient of one sample is a product of what enters the layer
and of the sample's errors, the derivatives of its loss with respect to the layer's outputs. One
pass computes both for all samples of a batch. With inputs x and errors e of a sample, the gradient
is

- e x' for the matrix of a linear layer and e for its bias, so that its square is |e|^2 (|x|^2 + 1);
- E U' for a convolution, where the columns of U are the patches of the inputs that the filters are
  applied to, and those of E are their errors, and the sum of the columns of E for its bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from dynamite_fl._load import user_code
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.task.batch import Batch, split_batch, to_device
from dynamite_fl.task.losses import Loss, per_sample_loss
from dynamite_fl.task.response_norm import LocalResponseNorm

# Layers without weights and without chance that compute every sample by itself.
_WITHOUT_WEIGHTS = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.MaxPool2d, nn.AvgPool2d, LocalResponseNorm)
_Layer = nn.Linear | nn.Conv2d
_NUMBERS_AT_ONCE = 2**24  # in a tensor of patches or of gradients, which bounds the memory


@dataclass(frozen=True, eq=False)
class GradientSums:
    """Sums over the gradients of some samples.

    Attributes:
        gradients: The sum of the gradients, (trained,), in any order of the weights.
        squares: The sum of the squares of their norms.
    """

    gradients: Tensor
    squares: float


@dataclass(frozen=True, eq=False)
class SampleGradients:
    """Computes ``GradientSums`` of a batch in one backward pass.

    Attributes:
        model: The model, whose module is a chain of ``modules``.
        modules: The layers, one after the other.
        loss: The loss of each sample.

    Example:
        >>> from dynamite_fl.task.task import Task
        >>> x, y = torch.tensor([[1.0, 2.0], [2.0, 0.0]]), torch.tensor([0, 1])
        >>> task = Task(
        ...     model=lambda: nn.Linear(2, 2), loss=nn.CrossEntropyLoss(), train_data=(x, y)
        ... )
        >>> model = FlatModel(task, seed=0)
        >>> model.load(torch.zeros(6))
        >>> of_samples = sample_gradients(model)
        >>> of_samples.sums((x, y)).squares  # |e|^2 is 1/2: (5 + 1)/2 + (4 + 1)/2
        5.5
    """

    model: FlatModel
    modules: Sequence[nn.Module]
    loss: Loss

    def sums(self, batch: Batch) -> GradientSums:
        """Return the sums over a batch at the module's weights, in training mode.

        A penalty adds the same to all gradients. It is left out here.
        """
        self.model.train()
        arguments, named, targets = split_batch(to_device(batch, self.model.device))
        (values,) = (*arguments, *named.values())  # a chain takes one
        layers: list[_Layer] = []
        inputs: list[Tensor] = []
        outputs: list[Tensor] = []
        with user_code("a local step"):
            for module in self.modules:
                if isinstance(module, _Layer):
                    layers.append(module)
                    inputs.append(values.detach())
                values = module(values)
                if isinstance(module, _Layer):
                    outputs.append(values)
            losses = _mean_of_places(self.loss(values, targets), targets)
        errors = torch.autograd.grad(losses.sum(), outputs)
        parts = [_layer_sums(*of_layer) for of_layer in zip(layers, inputs, errors, strict=True)]
        gradients = torch.cat([part.gradients for part in parts])
        return GradientSums(gradients, sum(part.squares for part in parts))


def sample_gradients(model: FlatModel) -> SampleGradients | None:
    """Return what computes the sums for a model; None if they are not known to be exact.

    They are if the model is a chain of linear layers, convolutions and layers without weights, each
    used once and without hooks, if all weights are trained in full precision, and if the loss is
    the mean of a known loss of each sample.
    """
    task, module = model.task, model.module
    modules = list(module) if type(module) is nn.Sequential else [module]
    loss = per_sample_loss(task.loss) if task.predict is None else None
    weights = [
        id(weight)
        for layer in modules
        if isinstance(layer, _Layer)
        for weight in (layer.weight, layer.bias)
        if weight is not None
    ]
    is_known = (
        all(map(_is_known, modules))
        and not _has_hooks(module)
        and [id(parameter) for parameter in module.parameters()] == weights
        and len(model.parameters) == len(weights)
        and model.compute.precision == "float32"
    )
    return SampleGradients(model, modules, loss) if loss is not None and is_known else None


def _is_known(module: nn.Module) -> bool:
    """Return whether a layer computes every sample by itself, and its gradients are known here."""
    if type(module) is nn.Flatten:
        return (module.start_dim, module.end_dim) == (1, -1)
    if type(module) is nn.Conv2d:
        is_padded = module.padding_mode == "zeros" and not isinstance(module.padding, str)
        return is_padded and module.groups == 1
    if type(module) is nn.Linear:
        return True
    return type(module) in _WITHOUT_WEIGHTS and not getattr(module, "inplace", False)


def _has_hooks(module: nn.Module) -> bool:
    """Return whether somebody's function is called in a pass, which may change what it computes."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(
        getattr(part, kind, None)
        for part in (*module.modules(), *module.parameters())
        for kind in kinds
    )


def _mean_of_places(losses: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss of each sample, (b,), over the places that are not ignored.

    Args:
        losses: The losses, (b,), or (b, ...) if samples have several places.
        targets: The targets. Labels below 0 are ignored.
    """
    if losses.dim() == 1:
        return losses
    places = losses.flatten(1)
    if targets.shape != losses.shape or targets.is_floating_point():
        return places.mean(1)
    return places.sum(1) / (targets >= 0).flatten(1).sum(1)


def _layer_sums(layer: _Layer, inputs: Tensor, errors: Tensor) -> GradientSums:
    """Return the sums over the gradients of a layer's weights.

    Args:
        layer: The layer.
        inputs: What enters it, (b, ...).
        errors: The derivatives of each sample's loss with respect to its outputs, (b, ...).
    """
    if isinstance(layer, nn.Linear) and inputs.dim() == 2:
        x, e = inputs.cpu().double(), errors.cpu().double()
        matrices, squares = e.T @ x, e.square().sum(1).dot(x.square().sum(1))
        biases = e
    else:
        matrices, squares, biases = _sums_of_rows(layer, inputs, errors)
    if layer.bias is None:
        return GradientSums(matrices.flatten(), float(squares))
    gradients = torch.cat([matrices.flatten(), biases.sum(0)])
    return GradientSums(gradients, float(squares + biases.square().sum()))


def _sums_of_rows(layer: _Layer, inputs: Tensor, errors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sums where a matrix is applied to several rows or patches of each sample.

    Returns:
        The sum of the gradients of the matrix, the sum of their squares, and the gradients of the
        bias, (b, outputs).
    """
    in_sample = errors[0].numel() // layer.weight.shape[0] * layer.weight[0].numel()
    at_once = max(_NUMBERS_AT_ONCE // max(in_sample, layer.weight.numel()), 1)
    matrices, squares, biases = [], [], []
    for some, their_errors in zip(
        torch.split(inputs, at_once), torch.split(errors, at_once), strict=True
    ):
        if isinstance(layer, nn.Linear):  # (b, ..., features)
            rows, columns = some.flatten(1, -2), their_errors.flatten(1, -2).transpose(1, 2)
        else:
            rows, columns = _patches(layer, some).transpose(1, 2), their_errors.flatten(2)
        each = torch.bmm(columns, rows).cpu().double()  # (b, outputs, inputs)
        matrices.append(each.sum(0))
        squares.append(each.square().sum())
        biases.append(columns.sum(2).cpu().double())
    return torch.stack(matrices).sum(0), torch.stack(squares).sum(), torch.cat(biases)


def _patches(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """Return the parts of images that the filters are applied to, (b, size of a filter, places)."""
    return functional.unfold(
        images,
        layer.kernel_size,
        dilation=layer.dilation,
        padding=layer.padding,  # type: ignore[arg-type]  # text is refused by _is_known
        stride=layer.stride,
    )
