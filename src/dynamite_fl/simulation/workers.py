"""An executor that computes clients' rounds in worker processes.

The workers are forked, so they have the data and the model without receiving them. All workers
receive the orders of a round, and with them the global model, once. Then each worker gets the next
client whenever it is free. Any worker may compute a client, except that a state that a worker has
kept stays with it (``placeholder.py``). Every client is computed alone and on one thread, so
neither the number of workers nor their speed changes any bit of any result.

``worker.py`` is what a worker does.
"""

import multiprocessing
import os
import signal
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from dynamite_fl.client.executors.executor import MakeClient
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.errors import InvalidInput, WorkerError
from dynamite_fl.simulation.placeholder import is_placeholder
from dynamite_fl.simulation.transfer import pack, receive, send
from dynamite_fl.simulation.worker import (
    BeginRound,
    Failure,
    Keep,
    RunClient,
    Settle,
    TakeStates,
    work,
)

_SECONDS_TO_END = 1.0  # the time that workers have to end before they are killed


class WorkerProcesses:
    """Executes clients' rounds in worker processes: an ``Executor``.

    States are sent only when necessary. If the state of a reply has tensors, it stays with its
    worker, and the reply carries a ``placeholder`` of it. An order comes with a placeholder, which
    stands for the state that the worker has kept, or with a whole state.

    Args:
        workers: The number of processes.
        make_client: Makes the client at a place in the fleet; called in the workers.
    """

    def __init__(self, workers: int, make_client: MakeClient) -> None:
        if "fork" not in multiprocessing.get_all_start_methods():
            raise InvalidInput(f"workers is {workers}, but this system cannot fork: it must be 1")
        self._request = 0  # the number of the last request, which answers to it carry
        self._awaits_answers = False
        self._computed_by: dict[int, int] = {}  # the worker of each client's last reply
        self._kept_by: dict[int, int] = {}  # the worker that keeps each client's state
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
        bound: list[deque[int]] = [deque() for _ in self._processes]  # places, by worker
        free: deque[int] = deque()  # places that any worker may compute
        for place, (order, state) in enumerate(zip(orders, states, strict=True)):
            places = bound[self._kept_by[order.client]] if is_placeholder(state) else free
            places.append(place)

        def hand_out(worker: int) -> None:
            if places := bound[worker] or free:
                place = places.popleft()
                self._send([worker], RunClient(place, states[place]))

        self._ask(BeginRound(list(orders)))
        for worker in range(len(self)):
            hand_out(worker)
        replies: dict[int, Reply] = {}
        for worker, (place, reply) in self._answers(len(orders)):
            hand_out(worker)
            replies[place] = reply
            self._computed_by[orders[place].client] = worker
        return [replies[place] for place in range(len(orders))]

    def keep(self, clients: Iterable[int]) -> None:
        """Adopt the states in the last replies of these clients; see ``Executor``."""
        kept = {client: self._computed_by[client] for client in clients}
        self._ask(Keep(list(kept)))
        self._awaits_answers = False
        self._kept_by.update(kept)

    def take_states(self) -> dict[int, ClientState]:
        """Return all states that the workers keep, which they then forget."""
        self._ask(TakeStates())
        return {client: state for _, kept in self._answers(len(self)) for client, state in kept}

    def close(self) -> None:
        """End the worker processes."""
        self._end()

    def _start(self, make_client: MakeClient) -> None:
        ours, theirs = multiprocessing.Pipe()
        inherited = [*self._connections, ours]
        process = multiprocessing.get_context("fork").Process(
            target=work, args=(theirs, inherited, make_client), daemon=True
        )
        with warnings.catch_warnings():  # newer Pythons warn that other threads may hold locks
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        self._connections.append(ours)
        self._processes.append(process)

    def _ask(self, message: Any) -> None:
        """Send a new request to all workers."""
        if not self._end.alive:
            raise WorkerError("the worker processes have been ended")
        if self._awaits_answers:
            self._settle()
        self._request += 1
        self._awaits_answers = True
        self._send(range(len(self)), message)

    def _send(self, workers: Iterable[int], message: Any) -> None:
        packed = pack((self._request, message))
        with _uninterrupted():
            for worker in workers:
                try:
                    send(self._connections[worker], packed)
                except OSError:
                    raise self._died(worker) from None

    def _settle(self) -> None:
        """After an interruption, wait until no worker computes for the last request any more."""
        self._awaits_answers = False
        self._ask(Settle())
        list(self._answers(len(self)))

    def _answers(self, count: int) -> Iterator[tuple[int, Any]]:
        """Yield so many answers, each with its worker; drop answers to older requests."""
        while count:
            for ready in wait(self._connections):
                worker = self._connections.index(ready)  # type: ignore[arg-type]  # no other kind
                request, answer = self._receive(worker)
                if request != self._request:
                    continue
                if isinstance(answer, Failure):
                    raise WorkerError(f"worker {worker} failed, {answer.text}")
                count -= 1
                yield worker, answer
        self._awaits_answers = False

    def _receive(self, worker: int) -> tuple[int, Any]:
        with _uninterrupted():
            try:
                request, answer = receive(self._connections[worker])
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
