"""Linear layers with ReLUs between them, computed for many clients at once.

The clients' weights are one tensor (n, d), and each layer of all of them is one batched product:
outputs X W' on the way forward, errors E W and the gradient E' X on the way back, where E is the
gradient of the loss in a layer's outputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from dynamite_fl.task.task import Task


def dense_layers(module: nn.Module, inputs: Tensor) -> list[nn.Linear]:
    """The linear layers that are all of a model but for ReLUs between them and a flatten before.

    Of any other model there are none.

    Example:
        >>> images = torch.zeros(5, 1, 2, 2)
        >>> dense_layers(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), images)
        [Linear(in_features=4, out_features=3, bias=True)]
        >>> dense_layers(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh()), images)
        []
    """
    modules = list(module) if type(module) is nn.Sequential else [module]
    flat = inputs.dim() == 2
    if modules and type(modules[0]) is nn.Flatten:
        flat = (modules[0].start_dim, modules[0].end_dim) == (1, -1)
        modules = modules[1:]
    layers = [layer for layer in modules[::2] if type(layer) is nn.Linear]
    between = [layer for layer in modules[1::2] if type(layer) is nn.ReLU]
    alternate = len(layers) == len(between) + 1 and len(layers) + len(between) == len(modules)
    fits = flat and alternate and len({id(layer) for layer in layers}) == len(layers)
    fits = fits and layers[0].in_features == inputs[0].numel()
    fits = fits and all(
        above.in_features == below.out_features for below, above in pairwise(layers)
    )
    fits = fits and all(layer.weight.dtype == inputs.dtype for layer in layers)
    return layers if fits else []


@dataclass(frozen=True)
class _Place:
    """Where a layer is in the vector of weights."""

    start: int
    outputs: int
    inputs: int
    has_bias: bool

    @property
    def end(self) -> int:
        return self.start + self.outputs * (self.inputs + self.has_bias)

    def matrices(self, weights: Tensor) -> Tensor:
        """Of each client, (n, outputs, inputs), as a view."""
        last = self.start + self.outputs * self.inputs
        return weights[:, self.start : last].view(-1, self.outputs, self.inputs)

    def biases(self, weights: Tensor) -> Tensor:
        """Of each client, (n, outputs), as a view."""
        return weights[:, self.start + self.outputs * self.inputs : self.end]

    def forward(self, weights: Tensor, inputs: Tensor) -> Tensor:
        """Outputs (n, s, outputs) for inputs (n, s, inputs)."""
        columns = inputs.transpose(1, 2)
        if not self.has_bias:
            return torch.bmm(self.matrices(weights), columns).transpose(1, 2)
        biases = self.biases(weights)[:, :, None]
        return torch.baddbmm(biases, self.matrices(weights), columns).transpose(1, 2)


@dataclass(frozen=True, eq=False)
class _Back:
    """What the way back shows at a layer: its inputs (n, s, inputs), its errors (n, s, outputs)."""

    place: _Place
    inputs: Tensor
    errors: Tensor


class Dense:
    """A model of dense layers, its loss and the data.

    Args:
        task: What is learned.
        layers: Of the task's model, as ``dense_layers`` finds them.
        inputs: Of all clients.
        targets: Of all clients.
    """

    def __init__(
        self, task: Task, layers: list[nn.Linear], inputs: Tensor, targets: Tensor
    ) -> None:
        if not layers:
            raise ValueError(f"the model of {task.name} is not of linear layers and ReLUs")
        self.task, self.inputs, self.targets = task, inputs, targets
        self.features = layers[0].in_features
        self._places: list[_Place] = []
        start = 0
        for layer in layers:
            has_bias = len(list(layer.parameters())) == 2
            place = _Place(start, layer.out_features, layer.in_features, has_bias)
            self._places.append(place)
            start = place.end

    def gradients(self, weights: Tensor, where: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """F_S(w) of each client without the penalty, (n,), and its gradient with it, (n, d).

        Args:
            weights: Of each client, (n, d).
            where: Its samples, (n, s).
            share: What each of them counts, (n, s).
        """
        entering, losses, errors = self._forward(weights, where, share)
        gradients = torch.empty_like(weights)
        with torch.no_grad():
            for back in self._backward(weights, entering, errors):
                matrices = back.place.matrices(gradients)
                matrices.baddbmm_(back.errors.transpose(1, 2), back.inputs, beta=0)
                if back.place.has_bias:
                    back.place.biases(gradients).copy_(back.errors.sum(1))
            if self.task.penalty:
                gradients.add_(weights, alpha=self.task.penalty)
        return (losses * share).sum(1), gradients

    def descend(self, weights: Tensor, where: Tensor, share: Tensor, rate: float) -> None:
        """A local step in place, if nobody asks for losses and gradients."""
        entering, _, errors = self._forward(weights, where, share)
        kept = 1 - rate * self.task.penalty
        with torch.no_grad():
            for back in self._backward(weights, entering, errors):
                matrices = back.place.matrices(weights)
                matrices.baddbmm_(back.errors.transpose(1, 2), back.inputs, beta=kept, alpha=-rate)
                if back.place.has_bias:
                    back.place.biases(weights).mul_(kept).sub_(back.errors.sum(1), alpha=rate)

    def with_penalty(self, losses: Tensor, weights: Tensor) -> list[float]:
        """F_S(w) with the penalty, for weights (n, d), or (1, d) if all have the same."""
        penalty = self.task.penalty / 2 * weights.square().sum(1) if self.task.penalty else 0.0
        total: list[float] = (losses + penalty).tolist()
        return total

    def variance(self, weights: Tensor, where: Tensor) -> float:
        """M_i from samples (m,), as ``probe.gradient_variance``.

        In a layer, a sample's gradient is e x', and e for the bias, so that its square is
        |e|^2 (|x|^2 + 1). The penalty is the same in all of them.
        """
        m = where.numel()
        if m < 2:
            return 0.0
        entering, _, errors = self._forward(weights[None], where[None], torch.ones(1, m))
        total = torch.zeros((), dtype=torch.float64)
        for back in self._backward(weights[None], entering, errors):
            x, e = back.inputs[0].double(), back.errors[0].double()
            if back.place.has_bias:
                x = torch.cat([x, torch.ones(m, 1, dtype=x.dtype)], 1)
            squares = (e.square().sum(1) * x.square().sum(1)).sum()
            total += squares - m * (e.T @ x / m).square().sum()
        return float(total.clamp(min=0) / (m - 1))

    def _forward(
        self, weights: Tensor, where: Tensor, share: Tensor
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """What enters each layer, losses (n, s), and shares' losses' gradient in outputs."""
        n, s = where.shape
        entering = [self.inputs.index_select(0, where.flatten()).view(n, s, -1)]
        with torch.no_grad():
            for place in self._places[:-1]:
                entering.append(place.forward(weights, entering[-1]).relu_())
            outputs = self._places[-1].forward(weights, entering[-1])
        outputs = outputs.flatten(0, 1).requires_grad_()
        losses = self.task.loss(outputs, self.targets.index_select(0, where.flatten()))
        (errors,) = torch.autograd.grad(losses, outputs, share.flatten().to(losses.dtype))
        return entering, losses.detach().view(n, s), errors.view(n, s, -1)

    def _backward(self, weights: Tensor, entering: list[Tensor], errors: Tensor) -> Iterator[_Back]:
        """From the last layer to the first; whoever is shown a layer may then change it."""
        layers = [*zip(self._places, entering, strict=True)]
        for place, inputs in reversed(layers[1:]):
            below = torch.bmm(errors, place.matrices(weights)) * (inputs > 0)
            yield _Back(place, inputs, errors)
            errors = below
        yield _Back(*layers[0], errors)
