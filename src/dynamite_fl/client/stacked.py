"""A cohort of clients at once, where the model is one linear layer.

Such a model is so small that calling torch takes longer than computing. So the clients' weights
are stacked into one tensor (n, d), and each local step of all of them is two batched products:
outputs X W', and the gradient E' X, where E is the gradient of the loss in the outputs. Each
client's draws, and up to rounding its reply, are those of ``Client.play``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dynamite_fl.client.client import Client, ClientState, LocalSteps, News, Order, Reply
from dynamite_fl.client.path import GRADIENTS, Path, Tracker
from dynamite_fl.client.probe import Memory
from dynamite_fl.records import IntArray

_AT_ONCE = 2**19  # numbers of inputs in one product: what a processor's cache can hold


def linear_layer(module: nn.Module, inputs: Tensor) -> nn.Linear | None:
    """The layer that is all of a model, after a flatten perhaps; None of any other model.

    Example:
        >>> images = torch.zeros(5, 1, 2, 2)
        >>> linear_layer(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), images)
        Linear(in_features=4, out_features=3, bias=True)
        >>> linear_layer(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), images)
    """
    layers = list(module) if type(module) is nn.Sequential else [module]
    flat = inputs.dim() == 2
    if layers and type(layers[0]) is nn.Flatten:
        flat = (layers[0].start_dim, layers[0].end_dim) == (1, -1)
        layers = layers[1:]
    if not flat or len(layers) != 1 or type(layers[0]) is not nn.Linear:
        return None
    layer = layers[0]
    fits = layer.in_features == inputs[0].numel() and layer.weight.dtype == inputs.dtype
    return layer if fits else None


def play_stacked(
    clients: Sequence[Client], orders: Sequence[Order], states: Sequence[ClientState]
) -> list[Reply]:
    """``client.play(order, state)`` of all of them, who have one model and one set of data.

    Args:
        clients: Their model must have a ``linear_layer``.
        orders: For each, the same but for client and batch size.
        states: Of each.
    """
    if not clients:
        return []
    shared = _Linear(clients[0])
    members = [_Member.of(*each) for each in zip(clients, orders, states, strict=True)]
    sizes = [max(batch.size for batch in member.batches) for member in members]
    replies: dict[int, Reply] = {}
    for places in _portions(sizes, shared.layer.in_features):
        stack = _Stack(shared, [members[place] for place in places])
        replies.update(zip(places, stack.play(), strict=True))
    return [replies[place] for place in range(len(clients))]


@dataclass(frozen=True, eq=False)
class _Member:
    """A client when its round begins, with its batches drawn as if it were alone."""

    client: Client
    order: Order
    state: ClientState
    news: News
    batches: list[IntArray]

    @classmethod
    def of(cls, client: Client, order: Order, state: ClientState) -> "_Member":
        state, news = client.with_arrivals(order, state)
        return cls(client, order, state, news, client.batches(order, state))

    def reply(self, shared: "_Linear", steps: LocalSteps) -> Reply:
        def variance(rows: IntArray) -> float:
            return shared.variance(self.order.weights, torch.from_numpy(rows))

        return self.client.reply(self.order, self.state, self.news, steps, variance)


def _portions(sizes: Sequence[int], features: int) -> Iterator[list[int]]:
    """Places of clients with similar batch sizes, as many as may be computed on at once."""
    portion: list[int] = []
    for place in sorted(range(len(sizes)), key=sizes.__getitem__):
        if portion and (len(portion) + 1) * sizes[place] * features > _AT_ONCE:
            yield portion
            portion = []
        portion.append(place)
    if portion:
        yield portion


class _Linear:
    """What all clients share: the layer, the loss and the data."""

    def __init__(self, client: Client) -> None:
        layer = linear_layer(client.model.module, client.inputs)
        if layer is None:
            raise ValueError(f"the model of {client.model.task.name} is not one linear layer")
        self.layer = layer
        self.has_bias = len(list(layer.parameters())) == 2
        self.task = client.model.task
        self.inputs, self.targets = client.inputs, client.targets

    def errors(
        self, weights: Tensor, where: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs (n, s, features), losses (n, s), and shares' losses' gradient in outputs.

        Args:
            weights: Of each client, (n, d).
            where: Its samples, (n, s).
            share: What each of them counts, (n, s).
        """
        n, s = where.shape
        inputs = self.inputs.index_select(0, where.flatten()).view(n, s, -1)
        with torch.no_grad():
            scores = self._scores(weights, inputs.transpose(1, 2))
        outputs = scores.transpose(1, 2).flatten(0, 1).requires_grad_()
        losses = self.task.loss(outputs, self.targets.index_select(0, where.flatten()))
        (errors,) = torch.autograd.grad(losses, outputs, share.flatten().to(losses.dtype))
        return inputs, losses.detach().view(n, s), errors.view(n, s, -1)

    def gradients(self, weights: Tensor, where: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """F_S(w) of each client without the penalty, (n,), and its gradient with it, (n, d)."""
        inputs, losses, errors = self.errors(weights, where, share)
        gradients = torch.bmm(errors.transpose(1, 2), inputs).flatten(1)
        if self.has_bias:
            gradients = torch.cat([gradients, errors.sum(1)], 1)
        if self.task.penalty:
            gradients.add_(weights, alpha=self.task.penalty)
        return (losses * share).sum(1), gradients

    def descend(self, weights: Tensor, where: Tensor, share: Tensor, rate: float) -> None:
        """A local step in place, if nobody asks for losses and gradients."""
        inputs, _, errors = self.errors(weights, where, share)
        matrices, biases = self._split(weights)
        kept = 1 - rate * self.task.penalty
        matrices.baddbmm_(errors.transpose(1, 2), inputs, beta=kept, alpha=-rate)
        if self.has_bias:
            biases.mul_(kept).sub_(errors.sum(1), alpha=rate)

    def with_penalty(self, losses: Tensor, weights: Tensor) -> list[float]:
        """F_S(w) with the penalty, for weights (n, d), or (1, d) if all have the same."""
        penalty = self.task.penalty / 2 * weights.square().sum(1) if self.task.penalty else 0.0
        total: list[float] = (losses + penalty).tolist()
        return total

    def variance(self, weights: Tensor, where: Tensor) -> float:
        """M_i from samples (m,), as ``probe.gradient_variance``.

        A sample's gradient is e x', and e for the bias, so that its square is |e|^2 (|x|^2 + 1).
        The penalty is the same in all of them.
        """
        m = where.numel()
        if m < 2:
            return 0.0
        share = torch.ones(1, m)
        inputs, _, errors = self.errors(weights[None], where[None], share)
        x, e = inputs[0].double(), errors[0].double()
        if self.has_bias:
            x = torch.cat([x, torch.ones(m, 1, dtype=x.dtype)], 1)
        squares = (e.square().sum(1) * x.square().sum(1)).sum()
        mean = e.T @ x / m
        return float((squares - m * mean.square().sum()).clamp(min=0) / (m - 1))

    def _scores(self, weights: Tensor, inputs: Tensor) -> Tensor:
        """Outputs (n, classes, s) for inputs (n, features, s)."""
        matrices, biases = self._split(weights)
        if not self.has_bias:
            return torch.bmm(matrices, inputs)
        return torch.baddbmm(biases[:, :, None], matrices, inputs)

    def _split(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Matrices (n, classes, features) and biases (n, classes), as views."""
        shape = self.layer.weight.shape
        return weights[:, : shape.numel()].view(-1, *shape), weights[:, shape.numel() :]


@dataclass(frozen=True, eq=False)
class _Stack:
    """Some clients of a cohort, n of them."""

    shared: _Linear
    members: list[_Member]

    def play(self) -> list[Reply]:
        """Algorithm 3 for all of them: see ``Client.play``."""
        order = self.members[0].order
        weights = order.weights.detach().repeat(len(self.members), 1)
        tracker = Tracker(order.weights, order.local_steps)
        for step in range(order.local_steps):
            where, share = self._padded([member.batches[step] for member in self.members])
            if self._asks_for_gradients(step):
                losses, gradients = self.shared.gradients(weights, where, share)
                if step == 0:
                    first_losses, first_gradients = losses, gradients
                last_weights = weights
                weights = torch.sub(weights, gradients, alpha=order.learning_rate)
            else:
                self.shared.descend(weights, where, share, order.learning_rate)
            if order.path:
                tracker.step(step, weights, gradients if step < GRADIENTS else None)
        ends = weights.unbind()
        paths: list[Path | None] = [None] * len(ends)
        if order.path:
            sizes = [member.batches[-1].size for member in self.members]
            at_hand = [member.client.rows(member.state).size for member in self.members]
            paths = [*tracker.paths(sizes, at_hand)]
        if not order.remember:
            nothing = [None] * len(ends)
            return self._replies(list(map(LocalSteps, ends, nothing, nothing, paths)))
        memories = map(
            Memory,
            [member.batches[-1] for member in self.members],
            last_weights.unbind(),
            self.shared.with_penalty(losses, last_weights),
            gradients.unbind(),
            self.shared.with_penalty(first_losses, order.weights[None]),
        )
        starts = first_gradients.unbind()
        return self._replies(list(map(LocalSteps, ends, memories, starts, paths)))

    def _asks_for_gradients(self, step: int) -> bool:
        order = self.members[0].order
        wanted = order.remember and step in (0, order.local_steps - 1)
        return wanted or (order.path and step < GRADIENTS)

    def _replies(self, steps: Sequence[LocalSteps]) -> list[Reply]:
        together = zip(self.members, steps, strict=True)
        return [member.reply(self.shared, each) for member, each in together]

    def _padded(self, batches: Sequence[IntArray]) -> tuple[Tensor, Tensor]:
        """Where the samples are, (n, s), and what each counts, (n, s).

        Smaller batches are filled up with their own first sample, which then counts nothing.
        """
        sizes = np.array([[batch.size] for batch in batches])
        where = np.empty((len(batches), sizes.max()), dtype=np.int64)
        for row, batch in zip(where, batches, strict=True):
            row[: batch.size] = batch
            row[batch.size :] = row[0]
        counts = np.arange(where.shape[1]) < sizes
        share = torch.from_numpy(counts / sizes)
        return torch.from_numpy(where), share.to(self.members[0].order.weights.dtype)
