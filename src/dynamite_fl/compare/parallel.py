"""Several trainings at a time, each in a process and a run folder of its own.

A training that fails, or whose process dies, does not stop the others. A process is told to stop by
a message on its pipe, or by the pipe's end, which comes by itself if this program dies. It then
ends after the current round and leaves a checkpoint.
"""

import signal
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from dynamite_fl._atomic import write_atomically
from dynamite_fl._format import metric_label, metric_value
from dynamite_fl._traceback import user_traceback, with_bug_note
from dynamite_fl.compare.contenders import Run
from dynamite_fl.errors import Diverged, DynamiteError
from dynamite_fl.job.build import build_training
from dynamite_fl.job.runs import open_run
from dynamite_fl.records import Limits
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session, Tracking

_SECONDS_BETWEEN_REPORTS = 0.2


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


@dataclass(frozen=True)
class _Moved:
    share: float
    reached: str | None


@dataclass(frozen=True)
class _Warned:
    message: str


@dataclass(frozen=True)
class _Finished:
    reached: str | None


@dataclass(frozen=True)
class _Failed:
    reason: str


@dataclass(frozen=True)
class _Stopped:
    pass


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
            watcher: What is told how the trainings get on.

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
    process = context.Process(target=_work, args=(theirs, data_dir))
    with _interrupts_ignored():  # the new process inherits this: its pipe tells it to stop
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
        message = _Failed(f"its process ended with code {worker.process.exitcode}")
    if isinstance(message, _Moved):
        watcher.moved(name, message.share, message.reached)
        return
    if isinstance(message, _Warned):
        watcher.warned(name, message.message)
        return
    worker.run = None
    if isinstance(message, _Failed):
        failures[name] = message.reason
        watcher.failed(name, message.reason)
    elif isinstance(message, _Finished):
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


def _work(pipe: Connection, data_dir: Path | None) -> None:
    """Run one training after another, in a worker process, until the pipe ends."""
    with suppress(EOFError, OSError):
        while True:
            run: Run = pipe.recv()
            pipe.send(_attempt(run, data_dir, pipe))


def _attempt(run: Run, data_dir: Path | None, pipe: Connection) -> _Finished | _Failed | _Stopped:
    """Run one training and say how it ended, whatever happens in it."""
    try:
        return _train(run, data_dir, pipe)
    except KeyboardInterrupt:
        return _Stopped()
    except Diverged as error:
        write_atomically(RunFolder(run.path).diverged, f"{error}\n")  # it need not be tried again
        return _Failed(str(error))
    except DynamiteError as error:
        return _Failed(str(error))
    except Exception as error:  # a user's own task may raise anything; a bug shows its traceback
        text = user_traceback(error)
        if text is None:
            text = "".join(traceback.format_exception(with_bug_note(error)))
        return _Failed(text)


def _train(run: Run, data_dir: Path | None, pipe: Connection) -> _Finished | _Stopped:
    """Run one training from where its folder is, until its end or until told to stop."""
    folder, training = RunFolder(run.path), build_training(run.job, data_dir)
    task = training.engine.task
    reporter = _Reporter(pipe, run.job.limits, task.leading_metric.name)
    outcome = Session(
        training,
        folder,
        on_round=[reporter.report],
        tracking=Tracking(run.job.trackers, run.job.tables, reporter.warn),
        open_folder=partial(open_run, folder, run.job, fingerprint(task), task.leading_metric),
        should_stop=pipe.poll,
    ).run()
    return _Stopped() if outcome.stopped_by is None else _Finished(reporter.reached)


@dataclass
class _Reporter:
    """Reports a training to the process that started this one, a few times a second."""

    pipe: Connection
    limits: Limits
    metric_name: str
    reached: str | None = None
    _reported: float = 0.0

    def report(self, record: RoundRecord) -> None:
        """Send the share of the limits that is used, and the newest leading metric."""
        name = self.metric_name
        if record.is_evaluated:
            self.reached = f"{metric_label(name)} {metric_value(name, record.value(name))}"
        if time.monotonic() - self._reported >= _SECONDS_BETWEEN_REPORTS:
            self._reported = time.monotonic()
            share = self.limits.share_used(
                seconds=record.seconds, cost=record.cost, rounds=record.round
            )
            self._send(_Moved(share, self.reached))

    def warn(self, message: str) -> None:
        """Send a warning."""
        self._send(_Warned(message))

    def _send(self, message: object) -> None:
        with suppress(OSError):  # the process that started this one is gone
            self.pipe.send(message)
