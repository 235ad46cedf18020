"""The only driver of a training, for ``run``, ``resume``, ``compare``, ``serve`` and ``train()``.

It sets torch to one thread, writes history and checkpoints, reports rounds to callbacks and
trackers, stops cleanly on Ctrl-C, and closes the engine.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dynamite_fl.tracking.track import track_rounds
from dynamite_fl.tracking.tracker import TrackedRun
from dynamite_fl.training.checkpoint import append_line, restore, save
from dynamite_fl.training.describe import describe
from dynamite_fl.training.history import History, read_history
from dynamite_fl.training.loop import Progress, Training, begin, rounds
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder

OnRound = Callable[[RoundRecord], None]


@dataclass(frozen=True)
class Tracking:
    """Which trackers are told of rounds.

    Attributes:
        names: The trackers' names.
        tables: The job's tables, which trackers record as parameters.
        warn: A function that is called with a sentence when a tracker fails.
    """

    names: Sequence[str]
    tables: Mapping[str, Any]
    warn: Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a session ended.

    Attributes:
        weights: The global model, (d,).
        history: All rounds, those before a resume included.
        stopped_by: The limit that ended the training; None if it was interrupted.
    """

    weights: Tensor
    history: History
    stopped_by: str | None


@dataclass(eq=False)
class Session:
    """A training, from where its folder is to its end.

    Attributes:
        training: What is trained, by which rules.
        folder: The run's folder; None to keep nothing.
        on_round: Functions that are called with each round's record once it is on disk.
        tracking: The trackers that are told of rounds; it needs a folder.
        open_folder: A function that makes the folder, or checks the one that is there. It is
            called once the limits are known to be feasible.
        should_stop: A function that says after each round whether to stop.
        seconds_between_checkpoints: How often a checkpoint is written. It is always written at
            the end and when the session is stopped.
    """

    training: Training
    folder: RunFolder | None = None
    on_round: Sequence[OnRound] = ()
    tracking: Tracking | None = None
    open_folder: Callable[[], None] = lambda: None
    should_stop: Callable[[], bool] = lambda: False
    seconds_between_checkpoints: float = 30.0
    _records: list[RoundRecord] = field(default_factory=list, init=False, repr=False)
    _saved: float = field(default=0.0, init=False, repr=False)

    def run(self) -> Outcome:
        """Train to the end, or until told to stop; what was done is then on disk.

        Raises:
            Infeasible: Not one round fits the limits; no file was written.
            Diverged: The updates of a round cannot be averaged.
        """
        with closing(self.training.engine), one_thread():
            progress = begin(self.training)
            if self.folder is not None:
                self.open_folder()
                progress = restore(self.training, self.folder, progress)
            try:
                with self._reporting() as report, delayed_interrupts() as interrupt:
                    progress = self._train(progress, report, interrupt)
            except _Stopped as stopped:
                progress = stopped.progress
        return Outcome(progress.weights, self._history(), progress.ended)

    def _train(self, progress: Progress, report: OnRound, interrupt: "Interrupt") -> Progress:
        self._saved = time.monotonic()
        for after, played in rounds(self.training, progress):
            progress = after
            self._record(describe(self.training, played, progress.control), report)
            stopping = interrupt.asked or self.should_stop()
            self._checkpoint(progress, now=stopping)
            if stopping and progress.ended is None:
                raise _Stopped(progress)
        if self.folder is not None and not self.folder.is_finished:  # it ended before it began
            save(self.training, self.folder, progress)
        return progress

    def _record(self, record: RoundRecord, report: OnRound) -> None:
        """Write a round to the history, then tell of it."""
        if self.folder is None:
            self._records.append(record)
        else:
            append_line(self.folder.history, record.to_line())
        report(record)

    def _checkpoint(self, progress: Progress, now: bool) -> None:
        """Save if that is due: at the end, if asked, and once in a while."""
        if self.folder is None:
            return
        due = time.monotonic() - self._saved >= self.seconds_between_checkpoints
        if now or due or progress.ended:
            save(self.training, self.folder, progress)
            self._saved = time.monotonic()

    @contextmanager
    def _reporting(self) -> Iterator[OnRound]:
        """Yield a function that tells callbacks and trackers of a round."""
        with ExitStack() as ending:
            listeners = list(self.on_round)
            if self.tracking is not None and self.folder is not None:
                opened = open_trackers(self.tracking, self.folder)
                listeners.append(ending.enter_context(opened))

            def report(record: RoundRecord) -> None:
                for listener in listeners:
                    listener(record)

            yield report

    def _history(self) -> History:
        if self.folder is None:
            return History(tuple(self._records))
        return read_history(self.folder.history)


class _Stopped(KeyboardInterrupt):
    """The session was told to stop; trackers see it as an interruption."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress


def open_trackers(wanted: Tracking, folder: RunFolder) -> AbstractContextManager[OnRound]:
    """Return a context whose value is a function that tells trackers of a round."""
    job = folder.job.read_text(encoding="utf-8")
    run = TrackedRun(folder.path, folder.history, job, wanted.tables)
    return track_rounds(wanted.names, run, wanted.warn)


@dataclass
class Interrupt:
    """Whether Ctrl-C was pressed.

    Attributes:
        asked: True after the first Ctrl-C, which waits for the round's end. A second one raises
            ``KeyboardInterrupt`` at once; what was saved before it stays.
    """

    asked: bool = False

    def handle(self, *_: object) -> None:
        """Take a signal."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def delayed_interrupts() -> Iterator[Interrupt]:
    """Let Ctrl-C wait for the end of a round, when all that is to be saved is whole.

    Signals are left alone in other threads, and where Ctrl-C has a handler of its own.
    """
    interrupt = Interrupt()
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt.handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Set torch to one thread; two threads on busy cores can be many times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
