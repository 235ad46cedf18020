"""A cohort of clients at once, where the model is of linear layers.

Such a model is so small that calling torch takes longer than computing. So the clients' weights
are stacked into one tensor (n, d), and each local step of all of them is a few batched products
(``dense.py``). Each client's draws, and up to rounding its reply, are those of ``Client.play``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.client import Client, ClientState, LocalSteps, News, Order, Reply
from dynamite_fl.client.dense import Dense, dense_layers
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.client.path import GRADIENTS, Path, Tracker
from dynamite_fl.client.probe import Memory
from dynamite_fl.records import IntArray

_AT_ONCE = 2**19  # numbers of inputs in one product: what a processor's cache can hold
_LARGEST = 2**18  # weights: of more, computing takes longer than calling


def can_be_stacked(model: FlatModel, inputs: Tensor) -> bool:
    """Whether ``play_stacked`` can play clients of this model, and is faster than one by one."""
    return len(model) <= _LARGEST and bool(dense_layers(model.module, inputs))


def play_stacked(
    clients: Sequence[Client], orders: Sequence[Order], states: Sequence[ClientState]
) -> list[Reply]:
    """``client.play(order, state)`` of all of them, who have one model and one set of data.

    Args:
        clients: Their model must have ``dense_layers``.
        orders: For each, the same but for client and batch size.
        states: Of each.
    """
    if not clients:
        return []
    first = clients[0]
    layers = dense_layers(first.model.module, first.inputs)
    shared = Dense(first.model.task, layers, first.inputs, first.targets)
    members = [_Member.of(*each) for each in zip(clients, orders, states, strict=True)]
    sizes = [max(batch.size for batch in member.batches) for member in members]
    replies: dict[int, Reply] = {}
    for places in _portions(sizes, shared.features):
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

    def reply(self, shared: Dense, steps: LocalSteps) -> Reply:
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


@dataclass(frozen=True, eq=False)
class _Stack:
    """Some clients of a cohort, n of them."""

    shared: Dense
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
