"""The Executor protocol, and the executor that computes in this process."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dynamite_fl.client.client import Client
from dynamite_fl.client.messages import ClientState, Order, Reply

MakeClient = Callable[[int], Client]  # makes the client at a place in the fleet
RunClients = Callable[[Sequence[Client], Sequence[Order], Sequence[ClientState]], Sequence[Reply]]


class Executor(Protocol):
    """Executes the rounds of simulated clients.

    An executor may keep the clients' states where it computes. Its replies then carry placeholders
    of the states (``simulation/placeholder.py``), which later orders come with.
    """

    def run_round(self, orders: Sequence[Order], states: Sequence[ClientState]) -> Sequence[Reply]:
        """Run a round of each client, and return the replies in the same order."""
        ...

    def keep(self, clients: Iterable[int]) -> None:
        """Adopt the states in the last replies of these clients; others keep their own."""
        ...

    def take_states(self) -> dict[int, ClientState]:
        """Return all states that are kept elsewhere, by client, and forget them there."""
        ...

    def close(self) -> None:
        """End everything that was started."""
        ...


@dataclass(frozen=True, eq=False)
class InProcess:
    """Executes rounds in this process; replies carry whole states, so nothing is kept here.

    Attributes:
        make_client: Makes the client at a place in the fleet.
        run_clients: Runs one round of each client, such as ``run_one_by_one`` or ``run_stacked``.
    """

    make_client: MakeClient
    run_clients: RunClients

    def run_round(self, orders: Sequence[Order], states: Sequence[ClientState]) -> Sequence[Reply]:
        """Run a round of each client; see ``Executor``."""
        return self.run_clients(
            [self.make_client(order.client) for order in orders], orders, states
        )

    def keep(self, clients: Iterable[int]) -> None:
        """Do nothing: no state is kept here."""

    def take_states(self) -> dict[int, ClientState]:
        """Return no states: none is kept here."""
        return {}

    def close(self) -> None:
        """Do nothing: nothing was started."""
