"""Many trainings in several processes, each in a folder of its own.

A training that fails, or whose process dies, does not stop the others. To stop a process, one
writes to its pipe or closes it, as happens by itself if this program dies: it then ends after
the round under way and leaves a checkpoint.
"""

import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

import torch

from dynamite_fl.compare import Run
from dynamite_fl.engine.run import RunFolder, run, save
from dynamite_fl.files import write_atomically
from dynamite_fl.records import Limits
from dynamite_fl.report.history import Line
from dynamite_fl.report.tracking import Tracked, tracking
from dynamite_fl.run_config import make_training, to_toml, trackers_of

_SECONDS_BETWEEN_NEWS = 0.2


class Watcher(Protocol):
    """Who is told how runs, by their names, get on."""

    def began(self, name: str) -> None:
        """A run was given to a process."""
        ...

    def moved(self, name: str, share: float, accuracy: float | None) -> None:
        """A run used up this share of its limits."""
        ...

    def finished(self, name: str, accuracy: float | None) -> None:
        """A run reached its end."""
        ...

    def failed(self, name: str, reason: str) -> None:
        """A run could not go on."""
        ...

    def told(self, name: str, words: str) -> None:
        """Something is amiss with a run that goes on, as with its trackers."""
        ...

    def stopping(self) -> None:
        """All was interrupted, and rounds under way are waited for."""
        ...


@dataclass(frozen=True)
class _Moved:
    share: float
    accuracy: float | None


@dataclass(frozen=True)
class _Told:
    words: str


@dataclass(frozen=True)
class _Finished:
    accuracy: float | None


@dataclass(frozen=True)
class _Failed:
    reason: str


@dataclass(frozen=True)
class _Stopped:
    pass


@dataclass
class _Worker:
    """A process, and what it is at."""

    process: BaseProcess
    pipe: Connection
    run: Run | None = None


def play_all(
    runs: Sequence[Run], data_dir: Path | None, jobs: int, watcher: Watcher
) -> dict[str, str]:
    """Play all runs, in so many processes.

    Returns:
        Why runs failed, by their names; those that are not in it finished.

    Raises:
        KeyboardInterrupt: All processes have ended, and what they did is kept.
    """
    waiting, failures = deque(runs), dict[str, str]()
    workers = [_start(data_dir) for _ in range(min(jobs, len(runs)))]
    try:
        for worker in workers:
            _give(worker, waiting, watcher)
        while busy := {worker.pipe: worker for worker in workers if worker.run is not None}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]  # wait returns what it is given
                _hear(worker, failures, watcher)
                if worker.run is None and waiting:
                    if not worker.process.is_alive():
                        workers[workers.index(worker)] = worker = _start(data_dir)
                    _give(worker, waiting, watcher)
    except KeyboardInterrupt:
        watcher.stopping()
        raise
    finally:
        _dismiss(workers)
    return failures


def _start(data_dir: Path | None) -> _Worker:
    context = get_context("spawn")  # a fork of a process with threads may hang
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, data_dir))
    with _interrupts_ignored():  # which the new process inherits: it is stopped by its pipe
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


def _give(worker: _Worker, waiting: deque[Run], watcher: Watcher) -> None:
    worker.run = waiting.popleft()
    watcher.began(worker.run.name)
    with suppress(OSError):  # if it is dead, that is heard next
        worker.pipe.send(worker.run)


def _hear(worker: _Worker, failures: dict[str, str], watcher: Watcher) -> None:
    """Pass on what a process says; it is free again if its run is over."""
    if worker.run is None:
        return
    name = worker.run.name
    try:
        news = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        news = _Failed(f"its process ended with code {worker.process.exitcode}")
    if isinstance(news, _Moved):
        watcher.moved(name, news.share, news.accuracy)
        return
    if isinstance(news, _Told):
        watcher.told(name, news.words)
        return
    worker.run = None
    if isinstance(news, _Failed):
        failures[name] = news.reason
        watcher.failed(name, news.reason)
    elif isinstance(news, _Finished):
        watcher.finished(name, news.accuracy)


def _dismiss(workers: Sequence[_Worker]) -> None:
    """End all processes: after the round under way, or at once if interrupted again."""
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


def _serve(pipe: Connection, data_dir: Path | None) -> None:
    """What a process does: one run after another until there are no more."""
    torch.set_num_threads(1)  # two threads on busy cores can be many times slower
    with suppress(EOFError, OSError):  # who would be told is gone
        while True:
            given: Run = pipe.recv()
            pipe.send(_attempt(given, data_dir, pipe))


def _attempt(given: Run, data_dir: Path | None, pipe: Connection) -> _Finished | _Failed | _Stopped:
    try:
        return _play(given, data_dir, pipe)
    except KeyboardInterrupt:
        return _Stopped()
    except ValueError as error:  # a job that cannot be used, limits that nothing fits
        return _Failed(str(error))
    except Exception as error:  # a user's task may do anything
        return _Failed(f"{type(error).__name__}: {error}")


def _play(given: Run, data_dir: Path | None, pipe: Connection) -> _Finished:
    """A run, from where its folder is, until its end.

    Raises:
        KeyboardInterrupt: There was word to stop, and a checkpoint is kept.
    """
    folder = RunFolder(given.path)
    training = make_training(given.job, data_dir)
    given.path.mkdir(parents=True, exist_ok=True)
    write_atomically(folder.job, to_toml(given.job.tables))
    accuracy, told = None, time.monotonic()
    tracked = Tracked(given.path, folder.history, to_toml(given.job.tables), given.job.tables)

    def tell(words: str) -> None:
        with suppress(OSError):  # who would be told is gone
            pipe.send(_Told(words))

    with tracking(trackers_of(given.job), tracked, tell) as track:
        for progress, line in run(training, folder):
            if line is not None:
                track(line)
                accuracy = accuracy if line["accuracy"] is None else line["accuracy"]
            if progress.ended is not None:
                break
            if pipe.poll():
                save(training, folder, progress)
                raise KeyboardInterrupt
            if line is not None and time.monotonic() - told >= _SECONDS_BETWEEN_NEWS:
                told = time.monotonic()
                pipe.send(_Moved(_used(line, training.limits), accuracy))
    return _Finished(accuracy)


def _used(line: Line, limits: Limits) -> float:
    """The share of that limit of which most is used up."""
    shares = [line["seconds"] / limits.deadline, line["cost"] / limits.budget]
    if limits.rounds is not None:
        shares.append(line["round"] / limits.rounds)
    return float(max(shares))
