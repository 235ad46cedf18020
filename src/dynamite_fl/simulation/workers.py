"""An executor that computes clients' rounds in worker processes.

The workers are forked, so they have the data and the model without receiving them. The worker
number ``client % workers`` runs all rounds of a client and keeps its state; each worker receives
the global model once a round. Every client is computed alone and on one thread, so the number of
workers changes no bit of any result.
"""

import io
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch import Tensor

from dynamite_fl._traceback import user_traceback
from dynamite_fl.client.executors.executor import MakeClient
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.errors import InvalidInput, WorkerError

_SECONDS_TO_END = 1.0  # the time that workers have to end before they are killed


class WorkerProcesses:
    """Executes clients' rounds in worker processes: an ``Executor``.

    States are sent only when necessary. The state of a reply stays with its worker, and the reply
    carries a ``placeholder`` of it. An order comes with a placeholder, which stands for the state
    that the worker has kept, or with a whole state.

    Args:
        workers: The number of processes.
        make_client: Makes the client at a place in the fleet; called in the workers.
    """

    def __init__(self, workers: int, make_client: MakeClient) -> None:
        if "fork" not in multiprocessing.get_all_start_methods():
            raise InvalidInput(f"workers is {workers}, but this system cannot fork: it must be 1")
        self._request = 0  # the number of the last request, which answers to it carry
        self._awaits_answers = False
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self._end = weakref.finalize(
            self, _end_workers, os.getpid(), self._connections, self._processes
        )
        for _ in range(workers):
            self._start(make_client)

    def __len__(self) -> int:
        return len(self._processes)

    def run_round(self, orders: Sequence[Order], states: Sequence[ClientState]) -> list[Reply]:
        """Run a round of each client, and return the replies in the same order.

        Raises:
            WorkerError: A worker process died, or a client's round failed.
        """
        shares: list[list[_ClientRound]] = [[] for _ in self._processes]
        for place, (order, state) in enumerate(zip(orders, states, strict=True)):
            shares[order.client % len(self)].append(_ClientRound(place, order, state))
        busy = {worker: len(share) for worker, share in enumerate(shares) if share}
        self._ask({worker: _RunRounds(shares[worker]) for worker in busy})
        replies: dict[int, Reply] = dict(self._answers(busy))
        return [replies[place] for place in range(len(orders))]

    def keep(self, clients: Iterable[int]) -> None:
        """Make the states of these clients' last replies their states; see ``Executor``."""
        shares: dict[int, list[int]] = {}
        for client in clients:
            shares.setdefault(client % len(self), []).append(client)
        self._ask({worker: _Keep(share) for worker, share in shares.items()})

    def take_states(self) -> dict[int, ClientState]:
        """Return all states that the workers keep, which they then forget."""
        everyone = dict.fromkeys(range(len(self)), 1)
        self._ask(dict.fromkeys(everyone, _TakeStates()))
        return {client: state for states in self._answers(everyone) for client, state in states}

    def close(self) -> None:
        """End the worker processes."""
        self._end()

    def _start(self, make_client: MakeClient) -> None:
        ours, theirs = multiprocessing.Pipe()
        inherited = [*self._connections, ours]
        process = multiprocessing.get_context("fork").Process(
            target=_work, args=(theirs, inherited, make_client), daemon=True
        )
        with warnings.catch_warnings():  # newer Pythons warn that other threads may hold locks
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        self._connections.append(ours)
        self._processes.append(process)

    def _ask(self, messages: dict[int, Any]) -> None:
        if not self._end.alive:
            raise WorkerError("the worker processes have been ended")
        if self._awaits_answers:
            self._settle()
        self._request += 1
        for worker, message in messages.items():
            with _uninterrupted():
                try:
                    _send(self._connections[worker], (self._request, message))
                except OSError:
                    raise self._died(worker) from None

    def _settle(self) -> None:
        """After an interruption, wait until no worker computes for the last request any more."""
        self._awaits_answers = False
        everyone = dict.fromkeys(range(len(self)), 1)
        self._ask(dict.fromkeys(everyone, _Settle()))
        list(self._answers(everyone))

    def _answers(self, expected: dict[int, int]) -> Iterator[Any]:
        """Yield the expected number of answers of each worker; drop answers to older requests."""
        left = dict(expected)
        self._awaits_answers = True
        while left:
            places = {self._connections[worker]: worker for worker in left}
            for ready in wait(list(places)):
                worker = places[ready]  # type: ignore[index]  # it waits for connections only
                request, answer = self._receive(worker)
                if request != self._request:
                    continue
                if isinstance(answer, _Failure):
                    raise WorkerError(f"worker {worker} failed:\n{answer.text}")
                yield answer
                left[worker] -= 1
                if not left[worker]:
                    del left[worker]
        self._awaits_answers = False

    def _receive(self, worker: int) -> tuple[int, Any]:
        with _uninterrupted():
            try:
                request, answer = self._connections[worker].recv()
            except (EOFError, OSError):
                raise self._died(worker) from None
        return request, answer

    def _died(self, worker: int) -> WorkerError:
        process = self._processes[worker]
        process.join(_SECONDS_TO_END)
        code = process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        self.close()
        return WorkerError(
            f"worker {worker} of {len(self)} (process {process.pid}) ended {how}, perhaps because "
            "memory was short: use fewer workers; the training can be resumed"
        )


def placeholder(state: ClientState) -> ClientState:
    """Return the state without its tensors, which stay with the worker."""
    if state.memory is None:
        return state
    nothing = torch.empty(0)
    memory = replace(state.memory, weights=nothing, gradient=nothing)
    return replace(state, memory=memory, buffer=None)


def is_placeholder(state: ClientState) -> bool:
    """Return whether a state is a ``placeholder`` and lacks its tensors."""
    return state.memory is not None and state.memory.weights.numel() == 0


@dataclass(frozen=True, eq=False)
class _ClientRound:
    """A client's round to run; ``place`` is its place among the orders of ``run_round``."""

    place: int
    order: Order
    state: ClientState


@dataclass(frozen=True, eq=False)
class _RunRounds:
    rounds: list[_ClientRound]


@dataclass(frozen=True)
class _Keep:
    clients: list[int]


@dataclass(frozen=True)
class _TakeStates:
    pass


@dataclass(frozen=True)
class _Settle:
    pass


@dataclass(frozen=True)
class _Failure:
    text: str


def _work(connection: Connection, inherited: Sequence[Connection], make_client: MakeClient) -> None:
    """Answer requests until this worker is ended or its parent has died."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent acts on Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()  # otherwise the parent's end of a pipe would outlive the parent
    torch.set_num_threads(1)
    worker = _Worker(connection, make_client)
    while True:
        try:
            worker.handle(*connection.recv())
        except (EOFError, OSError):
            return


class _Worker:
    """A worker's side: it runs its clients' rounds and keeps their states."""

    def __init__(self, connection: Connection, make_client: MakeClient) -> None:
        self._connection = connection
        self._make_client = make_client
        self._states: dict[int, ClientState] = {}
        self._new_states: dict[int, ClientState] = {}

    def handle(self, request: int, message: _RunRounds | _Keep | _TakeStates | _Settle) -> None:
        """Do what a message asks for, and answer."""
        match message:
            case _RunRounds(rounds):
                self._run_rounds(request, rounds)
            case _Keep(clients):
                self._states.update((client, self._new_states[client]) for client in clients)
                self._new_states.clear()
            case _TakeStates():
                self._answer(request, list(self._states.items()))
                self._states.clear()
            case _Settle():
                self._answer(request, None)

    def _run_rounds(self, request: int, rounds: Sequence[_ClientRound]) -> None:
        self._new_states.clear()
        for each in rounds:
            if self._connection.poll():  # the parent was interrupted and asks for something else
                return
            client = each.order.client
            state = self._states[client] if is_placeholder(each.state) else each.state
            try:
                reply = self._make_client(client).run_round(each.order, state)
            except Exception as error:  # whatever it is, the parent raises it
                text = user_traceback(error) or traceback.format_exc()
                self._answer(request, _Failure(f"client {client}: {text}"))
                return
            self._new_states[client] = reply.state
            self._answer(request, (each.place, replace(reply, state=placeholder(reply.state))))

    def _answer(self, request: int, answer: Any) -> None:
        _send(self._connection, (request, answer))


class _Pickler(pickle.Pickler):
    """Pickles a tensor as its plain memory, once for all that share it; torch would open files."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is Tensor and value.dtype in (torch.float32, torch.float64):
            return torch.tensor, (value.detach().numpy(),)  # a copy, aligned as torch does it
        return NotImplemented


def _send(connection: Connection, message: Any) -> None:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(message)
    connection.send_bytes(buffer.getbuffer())


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until a message has been sent or received as a whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    delayed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: delayed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if delayed:
        signal.raise_signal(signal.SIGINT)


def _end_workers(
    owner: int, connections: list[Connection], processes: Sequence[BaseProcess]
) -> None:
    """End all workers at once; whatever they compute or keep can be computed again."""
    if os.getpid() != owner:
        return  # this is a forked copy: the workers belong to another process
    for connection in connections:
        connection.close()
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_SECONDS_TO_END)
        if process.exitcode is None:
            process.kill()
            process.join()
