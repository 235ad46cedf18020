"""A worker process: it runs the rounds of clients, and keeps their states.

``workers.py`` is the other side: it starts the workers and sends them these messages.
"""

import signal
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from dynamite_fl._allocator import keep_freed_memory
from dynamite_fl._traceback import user_traceback
from dynamite_fl.client.executors.executor import MakeClient
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.errors import DynamiteError
from dynamite_fl.simulation.placeholder import is_placeholder, placeholder
from dynamite_fl.simulation.transfer import pack, receive, send


@dataclass(frozen=True, eq=False)
class BeginRound:
    """The orders of a round; there is no answer."""

    orders: list[Order]


@dataclass(frozen=True, eq=False)
class RunClient:
    """Asks for the reply to the order at this place among the orders of the round."""

    place: int
    state: ClientState


@dataclass(frozen=True)
class Keep:
    """Asks to adopt the states in the last replies of these clients, without an answer."""

    clients: list[int]


@dataclass(frozen=True)
class TakeStates:
    """Asks for all states that the worker keeps, which it then forgets."""


@dataclass(frozen=True)
class Settle:
    """Asks for an answer, which shows that all earlier requests are done."""


@dataclass(frozen=True)
class Failure:
    """The answer to a request that failed, with the reason."""

    text: str


def work(connection: Connection, inherited: Sequence[Connection], make_client: MakeClient) -> None:
    """Answer requests until this worker is ended or its parent has died."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent acts on Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()  # otherwise the parent's end of a pipe would outlive the parent
    torch.set_num_threads(1)
    keep_freed_memory()
    worker = _Worker(connection, make_client)
    while True:
        try:
            worker.handle(*receive(connection))
        except (EOFError, OSError):
            return


class _Worker:
    """A worker's side: it runs its clients' rounds and keeps their states."""

    def __init__(self, connection: Connection, make_client: MakeClient) -> None:
        self._connection = connection
        self._make_client = make_client
        self._orders: list[Order] = []
        self._states: dict[int, ClientState] = {}
        self._new_states: dict[int, ClientState] = {}

    def handle(self, request: int, message: Any) -> None:
        """Do what a message asks for, and answer."""
        match message:
            case BeginRound(orders):
                self._orders = orders
                self._new_states.clear()
            case RunClient(place, state):
                self._answer(request, self._run_client(place, state))
            case Keep(clients):
                self._keep(clients)
            case TakeStates():
                self._answer(request, list(self._states.items()))
                self._states.clear()
            case Settle():
                self._answer(request, None)

    def _run_client(self, place: int, state: ClientState) -> tuple[int, Reply] | Failure:
        order = self._orders[place]
        if is_placeholder(state):
            state = self._states[order.client]
        try:
            reply = self._make_client(order.client).run_round(order, state)
        except Exception as error:  # whatever it is, the parent raises it
            return Failure(f"client {order.client}: {_described(error)}")
        without_data = placeholder(reply.state)
        if without_data is not reply.state:
            self._new_states[order.client] = reply.state
        return place, replace(reply, state=without_data)

    def _keep(self, clients: Sequence[int]) -> None:
        """Keep the new states of these clients, and forget those that other workers now keep."""
        for client in clients:
            self._states.pop(client, None)
            if client in self._new_states:
                self._states[client] = self._new_states[client]
        self._new_states.clear()

    def _answer(self, request: int, answer: Any) -> None:
        send(self._connection, pack((request, answer)))


def _described(error: Exception) -> str:
    """Return what went wrong in a client's round, with the user's frames if there are any.

    An exception that is neither of the user's code nor an error of ours keeps its traceback.
    """
    if not isinstance(error, DynamiteError):
        return user_traceback(error) or traceback.format_exc()
    frames = user_traceback(error.__cause__ or error)
    return str(error) if frames is None else f"{frames}\n{error}"
