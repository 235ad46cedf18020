"""Many clients at once, for small models of linear layers and ReLUs.

Calling torch for such a model takes longer than the computation itself. So the clients' weights
are stacked into one tensor (n, d), and a local step of all clients is a few batched products
(``dense.py``). Each client draws the same batches as it would alone, and its reply is the same up
to rounding.
"""

from collections.abc import Iterator, Sequence

from torch import Tensor

from dynamite_fl.client.client import Client, begin_round, finish_rounds
from dynamite_fl.client.executors.dense import DenseSteps, dense_layers
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import ClientState, Order, Reply

_INPUTS_AT_ONCE = 2**19  # the numbers in the batches of a stack that a processor's cache can hold
_LARGEST_MODEL = 2**18  # the number of weights above which calling torch is the smaller part


def can_be_stacked(model: FlatModel, inputs: Tensor) -> bool:
    """Return whether ``run_stacked`` works for this model and is faster than one by one."""
    return len(model) <= _LARGEST_MODEL and bool(dense_layers(model.module, inputs))


def run_stacked(
    clients: Sequence[Client], orders: Sequence[Order], states: Sequence[ClientState]
) -> list[Reply]:
    """Run a round of each client, computing the local steps of many clients together.

    Args:
        clients: Clients that share their model, ``inputs`` and ``targets``. The model must have
            ``dense_layers``.
        orders: The order to each client, the same except for client and batch size.
        states: The state of each client.
    """
    if not clients:
        return []
    steps = DenseSteps(clients[0].model, clients[0].inputs, clients[0].targets)
    rounds = [
        begin_round(client, order, state)
        for client, order, state in zip(clients, orders, states, strict=True)
    ]
    batch_sizes = [max(batch.size for batch in started.batches) for started in rounds]
    replies: dict[int, Reply] = {}
    for places in _stacks(batch_sizes, steps.features):
        stack = finish_rounds([rounds[place] for place in places], steps)
        replies.update(zip(places, stack, strict=True))
    return [replies[place] for place in range(len(clients))]


def _stacks(batch_sizes: Sequence[int], features: int) -> Iterator[list[int]]:
    """Group the places of clients with similar batch sizes into stacks that fit a cache."""
    stack: list[int] = []
    for place in sorted(range(len(batch_sizes)), key=batch_sizes.__getitem__):
        if stack and (len(stack) + 1) * batch_sizes[place] * features > _INPUTS_AT_ONCE:
            yield stack
            stack = []
        stack.append(place)
    if stack:
        yield stack
