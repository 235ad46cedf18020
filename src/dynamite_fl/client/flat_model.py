"""A model as a function of one flat vector of weights, the form in which models are exchanged."""

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector

from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.task import Task


class FlatModel:
    """A task's model as a function of its weights, one vector (d,) that every call is given.

    Example:
        >>> x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
        >>> task = Task(
        ...     name="line",
        ...     make_model=lambda: torch.nn.Linear(2, 1, bias=False),
        ...     loss=lambda outputs, targets: (outputs - targets).square().sum(1) / 2,
        ...     correct=lambda outputs, targets: (outputs - targets).abs().sum(1) < 1,
        ...     train_inputs=x,
        ...     train_targets=y,
        ...     test_inputs=x,
        ...     test_targets=y,
        ... )
        >>> loss, gradient = FlatModel(task, seed=0).gradient(torch.zeros(2), x, y)
        >>> float(loss), gradient.tolist()  # 9/2, -3 x
        (4.5, [-3.0, -6.0])
    """

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        self.module = task.new_model(seed)
        named = dict(self.module.named_parameters())
        for name in self.module.state_dict().keys() - named.keys():
            raise InvalidInput(
                f"the model of {task.name} keeps {name}, which is not a weight and would not be "
                "averaged: use group normalisation instead of batch normalisation"
            )
        self._shapes = {name: weight.shape for name, weight in named.items()}
        self._sizes = [weight.numel() for weight in named.values()]
        self.first_weights = parameters_to_vector(named.values()).detach().clone()

    def __len__(self) -> int:
        return self.first_weights.numel()

    def named(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the weights by their names and in their shapes, as views."""
        parts = torch.split(weights, self._sizes)
        shapes = self._shapes.items()
        return {name: part.view(shape) for (name, shape), part in zip(shapes, parts, strict=True)}

    def outputs(self, weights: Tensor, inputs: Tensor) -> Tensor:
        """Compute the model's outputs for a batch, (b, ...)."""
        outputs: Tensor = functional_call(self.module, self.named(weights), (inputs,))
        return outputs

    def loss(self, weights: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        """Compute F_S(w), the mean loss of a batch plus the penalty."""
        losses = self.task.loss(self.outputs(weights, inputs), targets)
        return losses.mean() + self.task.penalty / 2 * weights.dot(weights)

    def gradient(self, weights: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Compute F_S(w) and its gradient (d,)."""
        weights = weights.detach().requires_grad_()
        loss = self.loss(weights, inputs, targets)
        (gradient,) = torch.autograd.grad(loss, weights)
        return loss.detach(), gradient
