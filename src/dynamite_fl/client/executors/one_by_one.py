"""Clients one after the other: works for every model."""

from collections.abc import Sequence

from dynamite_fl.client.client import Client
from dynamite_fl.client.messages import ClientState, Order, Reply


def run_one_by_one(
    clients: Sequence[Client], orders: Sequence[Order], states: Sequence[ClientState]
) -> list[Reply]:
    """Run a round of each client."""
    return [
        client.run_round(order, state)
        for client, order, state in zip(clients, orders, states, strict=True)
    ]
