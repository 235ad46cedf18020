"""Many clients at once, for small models of linear layers and ReLUs.

Calling torch for such a model takes longer than the computation itself. So the clients' weights
are stacked into one tensor (n, d), and a local step of all clients is a few batched products
(``dense.py``). Each client draws the same batches as it would alone, and its reply is the same up
to rounding.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from dynamite_fl._random import random_stream
from dynamite_fl.client.client import Client, begin_round, finish_rounds
from dynamite_fl.client.executors.dense import DenseSteps, dense_layers
from dynamite_fl.client.flat_model import Compute, FlatModel
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.errors import InvalidInput
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.losses import Loss, per_sample_loss
from dynamite_fl.task.samples import Samples
from dynamite_fl.task.task import Task
from dynamite_fl.task.tensor_samples import TensorSamples

_INPUTS_AT_ONCE = 2**19  # the numbers in the batches of a stack that a processor's cache can hold
_LARGEST_MODEL = 2**18  # the number of weights above which calling torch is the smaller part


def can_be_stacked(model: FlatModel, samples: Samples, optimizer: Optimizer) -> bool:
    """Return whether ``run_stacked`` works for this model and is faster than one by one."""
    return (
        isinstance(samples, TensorSamples)
        and isinstance(samples.inputs, Tensor)
        and isinstance(samples.targets, Tensor)
        and optimizer.is_plain
        and model.compute == Compute()
        and model.trained == len(model) <= _LARGEST_MODEL
        and bool(dense_layers(model.module, samples.inputs))
        and all(parameter.requires_grad for parameter in model.module.parameters())
        and _computes_as_alone(model, samples)
    )


def _computes_as_alone(model: FlatModel, samples: TensorSamples) -> bool:
    """Return whether the gradients of two clients at once are those of each client alone.

    They differ for what layers and losses do not show: hooks, replaced methods, and losses that
    draw at random or depend on the other samples of a batch.
    """
    rows = np.linspace(0, len(samples) - 1, 5).astype(np.int64)
    batches = [rows[:3], rows[3:]]
    with keyed_random(random_stream(0, "stacking"), model.device):
        loss = _loss_of_each_sample(model.task, samples)
        if loss is None:
            return False
        weights = model.first_weights + 0.1 * torch.randn_like(model.first_weights)
        steps = DenseSteps(model, samples, loss)
        together = steps.gradients(weights.repeat(2, 1), batches)
        alone = [model.gradient(weights, samples.batch(batch))[1] for batch in batches]
    return all(
        torch.allclose(ours, theirs, rtol=1e-3, atol=1e-5, equal_nan=True)
        for ours, theirs in zip(together, alone, strict=True)
    )


@lru_cache(maxsize=4)
def _loss_of_each_sample(task: Task, samples: TensorSamples) -> Loss | None:
    """Return the task's loss as one of each sample; None if that is not known."""
    if task.loss is None or task.predict is not None:
        return None
    known = per_sample_loss(task.loss)
    if known is not None:
        is_label = not samples.targets.is_floating_point()
        return known if not is_label or int(samples.targets.min()) >= 0 else None
    model = task.new_model(seed=0)
    for size in (2, 3):  # a loss of each class could have the same shape as one of each sample
        batch = samples.batch(np.zeros(size, dtype=np.int64))
        if task.loss(*task.outputs_and_targets(model, batch)).shape != (size,):
            return None
    return task.loss


def run_stacked(
    clients: Sequence[Client], orders: Sequence[Order], states: Sequence[ClientState]
) -> list[Reply]:
    """Run a round of each client, computing the local steps of many clients together.

    Args:
        clients: Clients that share their model and samples, for which ``can_be_stacked`` is true.
        orders: The order to each client, the same except for client, batch size and learning rate.
        states: The state of each client.
    """
    if not clients:
        return []
    model, samples = clients[0].model, clients[0].samples
    if not isinstance(samples, TensorSamples):
        raise InvalidInput("only samples in tensors can be stacked")
    loss = _loss_of_each_sample(model.task, samples)
    if loss is None:
        raise InvalidInput("only a loss that is known for each sample can be stacked")
    steps = DenseSteps(model, samples, loss)
    rounds = [
        begin_round(client, order, state)
        for client, order, state in zip(clients, orders, states, strict=True)
    ]
    batch_sizes = [max(batch.size for batch in started.batches) for started in rounds]
    replies: dict[int, Reply] = {}
    rates = [order.learning_rate for order in orders]
    stacks = _stacks(batch_sizes, rates, steps.features)
    if orders[0].rate_trial in ("search", "adopt"):  # each client tries rates of its own
        stacks = iter([place] for place in range(len(clients)))
    for places in stacks:
        stack = finish_rounds([rounds[place] for place in places], steps)
        replies.update(zip(places, stack, strict=True))
    return [replies[place] for place in range(len(clients))]


def _stacks(
    batch_sizes: Sequence[int], rates: Sequence[float], features: int
) -> Iterator[list[int]]:
    """Group clients of one learning rate and similar batch sizes into stacks that fit a cache."""
    stack: list[int] = []
    for place in sorted(range(len(rates)), key=lambda place: (rates[place], batch_sizes[place])):
        is_full = (len(stack) + 1) * batch_sizes[place] * features > _INPUTS_AT_ONCE
        if stack and (is_full or rates[place] != rates[stack[0]]):
            yield stack
            stack = []
        stack.append(place)
    if stack:
        yield stack
