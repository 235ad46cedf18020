"""Local steps of many clients at once, for models of linear layers with ReLUs between them.

The clients' weights are one tensor (n, d), and each layer of all clients is one batched product:
the outputs X W' on the forward pass, the errors E W and the gradient E' X on the backward pass,
where E is the gradient of the loss with respect to a layer's outputs. Written by hand, a step is
about twice to three times as fast as with ``torch.func.vmap`` (``benchmarks/README.md``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_steps import Measured
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.task.losses import Loss
from dynamite_fl.task.tensor_samples import TensorSamples


def dense_layers(module: nn.Module, inputs: Tensor) -> list[nn.Linear]:
    """Return the linear layers of a model that consists of nothing else but ReLUs between them.

    A flatten layer may come first. For any other model the list is empty, also if layers share
    weights, have other weights than ``nn.Linear`` has, or compute them from others.

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
    weights = [weight for layer in layers for weight in (layer.weight, layer.bias)]
    expected = [id(weight) for weight in weights if weight is not None]
    fits = fits and [id(parameter) for parameter in module.parameters()] == expected
    return layers if fits else []


@dataclass(frozen=True)
class _Layer:
    """A linear layer, as the part of the vector of weights that begins at ``start``."""

    start: int
    outputs: int
    inputs: int
    has_bias: bool

    @property
    def end(self) -> int:
        return self.start + self.outputs * (self.inputs + self.has_bias)

    def matrices(self, weights: Tensor) -> Tensor:
        """Return the matrix of each client, (n, outputs, inputs), as a view."""
        end = self.start + self.outputs * self.inputs
        return weights[:, self.start : end].view(-1, self.outputs, self.inputs)

    def biases(self, weights: Tensor) -> Tensor:
        """Return the bias of each client, (n, outputs), as a view."""
        return weights[:, self.start + self.outputs * self.inputs : self.end]

    def forward(self, weights: Tensor, inputs: Tensor) -> Tensor:
        """Compute the outputs (n, s, outputs) for inputs (n, s, inputs)."""
        columns = inputs.transpose(1, 2)
        if not self.has_bias:
            return torch.bmm(self.matrices(weights), columns).transpose(1, 2)
        biases = self.biases(weights)[:, :, None]
        return torch.baddbmm(biases, self.matrices(weights), columns).transpose(1, 2)


@dataclass(frozen=True, eq=False)
class _LayerErrors:
    """A layer on the backward pass: its inputs (n, s, inputs) and errors (n, s, outputs)."""

    layer: _Layer
    inputs: Tensor
    errors: Tensor


class DenseSteps:
    """Computes the local steps of any number of clients: a ``StepComputer``.

    Args:
        model: The model that all clients train; it must have ``dense_layers``.
        samples: The samples of all clients.
        loss: The loss of each sample.
    """

    def __init__(self, model: FlatModel, samples: TensorSamples, loss: Loss) -> None:
        self._task, self._loss, self.trained = model.task, loss, model.trained
        self._inputs, self._targets = samples.inputs, samples.targets
        self._layers: list[_Layer] = []
        start = 0
        for linear in dense_layers(model.module, self._inputs):
            has_bias = len(list(linear.parameters())) == 2
            layer = _Layer(start, linear.out_features, linear.in_features, has_bias)
            self._layers.append(layer)
            start = layer.end
        if not self._layers:
            raise InvalidInput(f"the model of {model.task.name} is not of linear layers and ReLUs")

    @property
    def features(self) -> int:
        """The number of inputs of the first layer."""
        return self._layers[0].inputs

    def begin(self, order: Order, clients: int) -> None:
        """Begin at the global model; see ``StepComputer``."""
        self._weights = order.weights.detach().repeat(clients, 1)  # (n, d)
        self._learning_rate = order.learning_rate

    def weights(self) -> Tensor:
        """Return the local models; see ``StepComputer``."""
        return self._weights.clone()

    def gradient_sum(self) -> None:
        """Return None, because all steps are steps of plain SGD; see ``StepComputer``."""

    def kept_state(self) -> ClientState:
        """Return nothing: plain SGD has no state; see ``StepComputer``."""
        return ClientState()

    def step(self, batches: Sequence[IntArray], *, measure: bool) -> Measured:
        """Take one local step of each client; see ``StepComputer``."""
        rows, shares = _padded(batches, self._weights.dtype)
        penalty = torch.zeros(())
        if self._task.penalty:
            penalty = self._task.penalty / 2 * self._weights.square().sum(1)
        if not measure:
            return Measured(self._step_in_place(rows, shares) + penalty)
        losses, gradients = self._gradients(self._weights, rows, shares)
        self._weights = torch.sub(self._weights, gradients, alpha=self._learning_rate)
        return Measured(losses + penalty, gradients)

    def gradients(self, weights: Tensor, batches: Sequence[IntArray]) -> Tensor:
        """Return the gradient of each client's batch at its weights, (n, d)."""
        return self._gradients(weights, *_padded(batches, weights.dtype))[1]

    def _step_in_place(self, rows: Tensor, shares: Tensor) -> Tensor:
        """Change each layer's weights as soon as its gradient is known, which is faster.

        Returns:
            Each client's loss before the step, without the penalty, (n,).
        """
        weights, rate = self._weights, self._learning_rate
        entering, losses, errors = self._forward(weights, rows, shares)
        kept = 1 - rate * self._task.penalty
        with torch.no_grad():
            for at in self._backward(weights, entering, errors):
                matrices = at.layer.matrices(weights)
                columns = at.errors.transpose(1, 2)
                matrices.baddbmm_(columns, at.inputs, beta=kept, alpha=-rate)
                if at.layer.has_bias:
                    at.layer.biases(weights).mul_(kept).sub_(at.errors.sum(1), alpha=rate)
        return (losses * shares).sum(1)

    def gradient_variance(self, weights: Tensor, rows: IntArray) -> float:
        """Compute M_i, as ``probe.gradient_variance`` does.

        In a layer, the gradient of one sample is e x' for the matrix and e for the bias, so that
        its square is |e|^2 (|x|^2 + 1). The penalty adds the same to the gradient of every sample.
        """
        m = rows.size
        if m < 2:
            return 0.0
        every_row = torch.from_numpy(rows)[None]
        entering, _, errors = self._forward(weights[None], every_row, torch.ones(1, m))
        total = torch.zeros((), dtype=torch.float64)
        for at in self._backward(weights[None], entering, errors):
            x, e = at.inputs[0].double(), at.errors[0].double()
            if at.layer.has_bias:
                x = torch.cat([x, torch.ones(m, 1, dtype=x.dtype)], 1)
            squares = (e.square().sum(1) * x.square().sum(1)).sum()
            total += squares - m * (e.T @ x / m).square().sum()
        return float(total.clamp(min=0) / (m - 1))

    def _gradients(self, weights: Tensor, rows: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Compute each client's loss without the penalty, (n,), and its gradient with it, (n, d).

        Args:
            weights: The weights of each client, (n, d).
            rows: The rows of each client's batch, (n, s).
            shares: The share of each sample in the client's loss, (n, s).
        """
        entering, losses, errors = self._forward(weights, rows, shares)
        gradients = torch.empty_like(weights)
        with torch.no_grad():
            for at in self._backward(weights, entering, errors):
                matrices = at.layer.matrices(gradients)
                matrices.baddbmm_(at.errors.transpose(1, 2), at.inputs, beta=0)
                if at.layer.has_bias:
                    at.layer.biases(gradients).copy_(at.errors.sum(1))
            if self._task.penalty:
                gradients.add_(weights, alpha=self._task.penalty)
        return (losses * shares).sum(1), gradients

    def _forward(
        self, weights: Tensor, rows: Tensor, shares: Tensor
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Compute the inputs of each layer, the losses (n, s) and the errors of the last layer."""
        n, s = rows.shape
        entering = [self._inputs.index_select(0, rows.flatten()).view(n, s, -1)]
        with torch.no_grad():
            for layer in self._layers[:-1]:
                entering.append(layer.forward(weights, entering[-1]).relu_())
            outputs = self._layers[-1].forward(weights, entering[-1])
        outputs = outputs.flatten(0, 1).requires_grad_()
        losses = self._loss(outputs, self._targets.index_select(0, rows.flatten()))
        (errors,) = torch.autograd.grad(losses, outputs, shares.flatten().to(losses.dtype))
        return entering, losses.detach().view(n, s), errors.view(n, s, -1)

    def _backward(
        self, weights: Tensor, entering: list[Tensor], errors: Tensor
    ) -> Iterator[_LayerErrors]:
        """Yield the errors from the last layer to the first.

        The weights of a layer are no longer needed once it is yielded: the caller may change them.
        """
        layers = [*zip(self._layers, entering, strict=True)]
        for layer, inputs in reversed(layers[1:]):
            below = torch.bmm(errors, layer.matrices(weights)) * (inputs > 0)
            yield _LayerErrors(layer, inputs, errors)
            errors = below
        yield _LayerErrors(*layers[0], errors)


def _padded(batches: Sequence[IntArray], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the batches' rows, (n, s), and the share of each sample in the loss, (n, s).

    Smaller batches are padded with their own first sample, whose copies have the share 0.
    """
    sizes = np.array([[batch.size] for batch in batches])
    rows = np.empty((len(batches), sizes.max()), dtype=np.int64)
    for row, batch in zip(rows, batches, strict=True):
        row[: batch.size] = batch
        row[batch.size :] = row[0]
    counts = np.arange(rows.shape[1]) < sizes
    return torch.from_numpy(rows), torch.from_numpy(counts / sizes).to(dtype)
