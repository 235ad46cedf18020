"""Worker processes that compute for the clients of a simulation.

They are forked when first needed, so that data and model are there without being sent. A client
belongs to the worker of its number modulo theirs, which keeps its state; the global model goes to
each worker once a round. Every client is computed alone on one thread, so the number of workers
changes no bit of any result.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import torch
from torch import Tensor

from dynamite_fl.client.client import Client, ClientState, Order, Reply

_SECONDS_TO_END = 1.0  # that workers are given before they are killed


class WorkerError(RuntimeError):
    """A worker died or what it computed failed; the message says which and why."""


class Crew(Protocol):
    """Who computes for the clients of a simulation, in other processes."""

    def play(self, orders: Sequence[Order], states: Sequence[ClientState]) -> Sequence[Reply]:
        """A round of each client, in the order given."""
        ...

    def keep(self, clients: Iterable[int]) -> None:
        """Let the states of these clients' last replies be theirs; others stay as they were."""
        ...

    def take_states(self) -> dict[int, ClientState]:
        """All states that are kept there, which are then forgotten there."""
        ...

    def close(self) -> None:
        """End the processes."""
        ...


class Pool:
    """Workers that play rounds for clients.

    States travel only when they must: a state that went into a reply stays with its worker, and
    the reply has a ``stub`` of it. An order may come with a stub, which stands for what the
    worker has kept, or with a whole state.

    Args:
        workers: How many.
        make_client: A client by its number; called in the workers.
    """

    def __init__(self, workers: int, make_client: Callable[[int], Client]) -> None:
        if "fork" not in multiprocessing.get_all_start_methods():
            raise ValueError(f"workers is {workers}, but this system cannot fork: it must be 1")
        self._request = 0
        self._waiting = False
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self._end = weakref.finalize(
            self, _end_workers, os.getpid(), self._connections, self._processes
        )
        for _ in range(workers):
            self._start(make_client)

    def __len__(self) -> int:
        return len(self._processes)

    def play(self, orders: Sequence[Order], states: Sequence[ClientState]) -> list[Reply]:
        """A round of each client, in the order given.

        Raises:
            WorkerError: A worker died or failed.
        """
        shares: list[list[_Job]] = [[] for _ in self._processes]
        for place, (order, state) in enumerate(zip(orders, states, strict=True)):
            shares[order.client % len(self)].append(_Job(place, order, state))
        busy = {worker: len(share) for worker, share in enumerate(shares) if share}
        self._ask({worker: _Play(shares[worker]) for worker in busy})
        replies: dict[int, Reply] = dict(self._answers(busy))
        return [replies[place] for place in range(len(orders))]

    def keep(self, clients: Iterable[int]) -> None:
        """Let the states of these clients' last replies be theirs; others stay as they were."""
        shares: dict[int, list[int]] = {}
        for client in clients:
            shares.setdefault(client % len(self), []).append(client)
        self._ask({worker: _Keep(share) for worker, share in shares.items()})

    def take_states(self) -> dict[int, ClientState]:
        """All states that workers have kept, which they then forget."""
        everyone = dict.fromkeys(range(len(self)), 1)
        self._ask(dict.fromkeys(everyone, _TakeStates()))
        return {client: state for states in self._answers(everyone) for client, state in states}

    def close(self) -> None:
        """End the workers."""
        self._end()

    def _start(self, make_client: Callable[[int], Client]) -> None:
        ours, theirs = multiprocessing.Pipe()
        inherited = [*self._connections, ours]
        process = multiprocessing.get_context("fork").Process(
            target=_work, args=(theirs, inherited, make_client), daemon=True
        )
        with warnings.catch_warnings():  # newer Pythons warn of locks that threads may hold
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        self._connections.append(ours)
        self._processes.append(process)

    def _ask(self, messages: dict[int, Any]) -> None:
        if not self._end.alive:
            raise WorkerError("the workers have been ended")
        if self._waiting:
            self._settle()
        self._request += 1
        for worker, message in messages.items():
            with _undisturbed():
                try:
                    _send(self._connections[worker], (self._request, message))
                except OSError:
                    raise self._died(worker) from None

    def _settle(self) -> None:
        """After an interruption: wait until nothing of the last request is under way."""
        self._waiting = False
        everyone = dict.fromkeys(range(len(self)), 1)
        self._ask(dict.fromkeys(everyone, _Settle()))
        list(self._answers(everyone))

    def _answers(self, expected: dict[int, int]) -> Iterator[Any]:
        """As many answers of each worker as expected, as they come; older ones are dropped."""
        left = dict(expected)
        self._waiting = True
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
        self._waiting = False

    def _receive(self, worker: int) -> tuple[int, Any]:
        with _undisturbed():
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


def stub(state: ClientState) -> ClientState:
    """A state without its tensors, which stay with the worker."""
    if state.memory is None:
        return state
    nothing = torch.empty(0)
    memory = replace(state.memory, weights=nothing, gradient=nothing)
    return replace(state, memory=memory, buffer=None)


def is_stub(state: ClientState) -> bool:
    """Whether a state is only a ``stub`` of one."""
    return state.memory is not None and state.memory.weights.numel() == 0


@dataclass(frozen=True, eq=False)
class _Job:
    place: int
    order: Order
    state: ClientState


@dataclass(frozen=True, eq=False)
class _Play:
    jobs: list[_Job]


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


def _work(
    connection: Connection, inherited: Sequence[Connection], make_client: Callable[[int], Client]
) -> None:
    """A worker's life: until it is ended, or nobody is left at the other end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to act on
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()  # else the parent's end of a pipe would outlive the parent
    torch.set_num_threads(1)
    desk = _Desk(connection, make_client)
    while True:
        try:
            desk.serve(*connection.recv())
        except (EOFError, OSError):
            return


class _Desk:
    """Where a worker keeps its clients' states and answers."""

    def __init__(self, connection: Connection, make_client: Callable[[int], Client]) -> None:
        self._connection = connection
        self._make_client = make_client
        self._states: dict[int, ClientState] = {}
        self._pending: dict[int, ClientState] = {}

    def serve(self, request: int, message: _Play | _Keep | _TakeStates | _Settle) -> None:
        """Do what a message asks."""
        match message:
            case _Play(jobs):
                self._play(request, jobs)
            case _Keep(clients):
                self._states.update((client, self._pending[client]) for client in clients)
                self._pending.clear()
            case _TakeStates():
                self._answer(request, list(self._states.items()))
                self._states.clear()
            case _Settle():
                self._answer(request, None)

    def _play(self, request: int, jobs: Sequence[_Job]) -> None:
        self._pending.clear()
        for job in jobs:
            if self._connection.poll():  # the parent was interrupted and wants something else
                return
            client = job.order.client
            state = self._states[client] if is_stub(job.state) else job.state
            try:
                reply = self._make_client(client).play(job.order, state)
            except Exception:  # whatever it is, the parent must hear of it
                self._answer(request, _Failure(f"client {client}: {traceback.format_exc()}"))
                return
            self._pending[client] = reply.state
            self._answer(request, (job.place, replace(reply, state=stub(reply.state))))

    def _answer(self, request: int, answer: Any) -> None:
        _send(self._connection, (request, answer))


class _Pickler(pickle.Pickler):
    """Sends tensors as plain memory, once for all that share one; torch would open files."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is Tensor and value.dtype in (torch.float32, torch.float64):
            return torch.tensor, (value.detach().numpy(),)  # a copy, aligned as torch does it
        return NotImplemented


def _send(connection: Connection, message: Any) -> None:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(message)
    connection.send_bytes(buffer.getbuffer())


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold Ctrl-C back until a message is through, so that none is cut in two."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if held:
        signal.raise_signal(signal.SIGINT)


def _end_workers(
    owner: int, connections: list[Connection], processes: Sequence[BaseProcess]
) -> None:
    """End all workers, whatever they are at: what they hold can be computed again."""
    if os.getpid() != owner:
        return  # a forked copy of the pool: its workers are not ours
    for connection in connections:
        connection.close()
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_SECONDS_TO_END)
        if process.exitcode is None:
            process.kill()
            process.join()
