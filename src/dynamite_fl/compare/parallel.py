"""Several trainings at a time, each in a process and a run folder of its own.

A training that fails, or whose process dies, does not stop the others. A process stops after
the current round, with a checkpoint, if a message on its pipe asks for it or if the pipe ends. The
pipe ends by itself if this program dies.
"""

import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from dynamite_fl.compare.contenders import Run
from dynamite_fl.compare.worker import Failed, Finished, Moved, Warned, work


class Watcher(Protocol):
    """Follows runs, which are known by their names."""

    def started(self, name: str) -> None:
        """Take note that a process runs a training."""
        ...

    def moved(self, name: str, share: float, reached: str | None) -> None:
        """Take note of the share of its limits that a run has used.

        Args:
            name: The run.
            share: The share.
            reached: The leading metric in words, such as ``accuracy 81.2%``; None if it is not
                known yet.
        """
        ...

    def finished(self, name: str, reached: str | None) -> None:
        """Take note that a run reached its end, with its leading metric in words."""
        ...

    def failed(self, name: str, reason: str) -> None:
        """Take note that a run cannot go on."""
        ...

    def warned(self, name: str, message: str) -> None:
        """Take note of a warning of a run that goes on."""
        ...

    def stopping(self) -> None:
        """Take note that all runs are to stop after their current rounds."""
        ...


@dataclass
class _Worker:
    """A process, its pipe, and the run that it has; None if it has none."""

    process: BaseProcess
    pipe: Connection
    run: Run | None = None


@dataclass
class Workers:
    """Processes that run trainings, as a context manager.

    They are started when they are first needed, and they stay until the context ends, because a
    process takes seconds to load PyTorch.

    Attributes:
        data_dir: The folder that holds datasets.
        jobs: The number of processes.
    """

    data_dir: Path | None
    jobs: int
    _workers: list[_Worker] = field(default_factory=list)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_error: object) -> None:
        _end(self._workers)

    def run(self, runs: Sequence[Run], watcher: Watcher) -> dict[str, str]:
        """Run trainings.

        Args:
            runs: The trainings.
            watcher: The object whose methods are called when a training starts, moves on and ends.

        Returns:
            The reasons why runs failed, by their names. All others finished.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed. The processes end with the context, after their
                current rounds, and their work is kept.
        """
        waiting, failures, workers = deque(runs), dict[str, str](), self._workers
        while len(workers) < min(self.jobs, len(runs)):
            workers.append(_start_worker(self.data_dir))
        try:
            for place in range(len(workers)):
                self._assign(place, waiting, watcher)
            while busy := {worker.pipe: worker for worker in workers if worker.run is not None}:
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]  # wait returns what it is given
                    _receive(worker, failures, watcher)
                    if worker.run is None:
                        self._assign(workers.index(worker), waiting, watcher)
        except KeyboardInterrupt:
            watcher.stopping()
            raise
        return failures

    def _assign(self, place: int, waiting: deque[Run], watcher: Watcher) -> None:
        """Give a worker the next run, if there is one; a new worker takes a dead one's place."""
        if not waiting:
            return
        if not self._workers[place].process.is_alive():
            self._workers[place].pipe.close()
            self._workers[place] = _start_worker(self.data_dir)
        worker = self._workers[place]
        worker.run = waiting.popleft()
        watcher.started(worker.run.name)
        with suppress(OSError):  # a dead worker is noticed when its pipe is read
            worker.pipe.send(worker.run)


def run_all(
    runs: Sequence[Run], data_dir: Path | None, jobs: int, watcher: Watcher
) -> dict[str, str]:
    """Run trainings in processes that end with them, and return why runs failed."""
    with Workers(data_dir, jobs) as workers:
        return workers.run(runs, watcher)


def _start_worker(data_dir: Path | None) -> _Worker:
    context = get_context("spawn")  # a fork of a process with threads may hang
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, data_dir))
    with _interrupts_ignored():  # the new process inherits this: a message on its pipe stops it
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _receive(worker: _Worker, failures: dict[str, str], watcher: Watcher) -> None:
    """Pass on a message of a worker; the worker is free if its run is over."""
    if worker.run is None:
        return
    name = worker.run.name
    try:
        message = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        message = Failed(f"its process ended with code {worker.process.exitcode}")
    if isinstance(message, Moved):
        watcher.moved(name, message.share, message.reached)
        return
    if isinstance(message, Warned):
        watcher.warned(name, message.message)
        return
    worker.run = None
    if isinstance(message, Failed):
        failures[name] = message.reason
        watcher.failed(name, message.reason)
    elif isinstance(message, Finished):
        watcher.finished(name, message.reached)


def _end(workers: Sequence[_Worker]) -> None:
    """End all processes after their current rounds, or at once on a second Ctrl-C."""
    for worker in workers:
        worker.pipe.close()
    try:
        for worker in workers:
            worker.process.join()
    except KeyboardInterrupt:
        for worker in workers:
            worker.process.terminate()
            worker.process.join()
        raise
