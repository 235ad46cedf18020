"""A session runs a training from its start, or from its checkpoint, to its end.

It is used by ``run``, ``resume``, ``compare``, ``serve`` and ``train()`` alike. It sets torch to
one thread, writes the history and checkpoints, reports rounds to callbacks and trackers, stops
after the current round when Ctrl-C is pressed, and closes the engine.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from dynamite_fl._allocator import keep_freed_memory
from dynamite_fl.tracking.track import track_rounds
from dynamite_fl.tracking.tracker import TrackedRun
from dynamite_fl.training.checkpoint import restore, save, save_result
from dynamite_fl.training.describe import describe
from dynamite_fl.training.history import History, read_history
from dynamite_fl.training.history_file import HistoryFile
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.releases import note_release, with_lost_releases
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.threads import one_thread
from dynamite_fl.training.training import Training

OnRound = Callable[[RoundRecord], None]


@dataclass(frozen=True)
class Tracking:
    """The trackers that rounds are reported to.

    Attributes:
        names: The trackers' names.
        tables: The job's tables, which trackers record as parameters.
        warn: A function that is called with a message when a tracker fails.
    """

    names: Sequence[str]
    tables: Mapping[str, Any]
    warn: Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a session.

    Attributes:
        weights: The global model after the last round, (d,).
        history: All rounds of the training, including those before a resume.
        stopped_by: The limit that ended the training; None if it was interrupted.
    """

    weights: Tensor
    history: History
    stopped_by: str | None


@dataclass(eq=False)
class Session:
    """Runs a training to its end, from the checkpoint in its folder if there is one.

    Attributes:
        training: The training to run.
        folder: The run folder; None to write no files.
        on_round: Functions that are called with the record of each round, once it is in the
            history.
        tracking: The trackers that rounds are reported to. It is ignored without a folder.
        open_folder: A function that begins a run in the folder, or checks that the folder holds
            this run. It is called only if there is a folder, and only after the limits have been
            found feasible, so that an infeasible training leaves no files.
        should_stop: A function that returns, after each round, whether the session stops.
        seconds_between_checkpoints: The least time between two checkpoints. A checkpoint is
            always written at the end and when the session stops.
    """

    training: Training
    folder: RunFolder | None = None
    on_round: Sequence[OnRound] = ()
    tracking: Tracking | None = None
    open_folder: Callable[[], None] = lambda: None
    should_stop: Callable[[], bool] = lambda: False
    seconds_between_checkpoints: float = 30.0
    _records: list[RoundRecord] = field(default_factory=list, init=False, repr=False)
    _saved_at: float = field(default=0.0, init=False, repr=False)
    _file: HistoryFile | None = field(default=None, init=False, repr=False)

    def run(self) -> Outcome:
        """Train until a limit ends the training or the session is asked to stop.

        Raises:
            Infeasible: The limits do not allow a single round. No file was written.
            RunFolderError: The folder is in use, damaged or of another training.
            Diverged: Not one update of a round can be averaged.
        """
        keep_freed_memory()
        with closing(self.training.engine), one_thread():
            progress = begin(self.training)
            with nullcontext() if self.folder is None else self.folder.held():
                return self._run(progress)

    def _run(self, progress: Progress) -> Outcome:
        """Train from the checkpoint in the folder, or else from the given progress."""
        if self.folder is not None:
            self.open_folder()
            progress = restore(self.training, self.folder, progress)
            progress = with_lost_releases(self.training, self.folder, progress)
            self._file = HistoryFile(self.folder)
        try:
            with self._reporting() as report, delayed_interrupts() as interrupt:
                progress = self._train(progress, report, interrupt)
        except _Stopped as stopped:
            progress = stopped.progress
        return Outcome(progress.weights, self._history(), progress.ended)

    def _train(self, start: Progress, report: OnRound, interrupt: "Interrupt") -> Progress:
        """Run, record and save rounds until the training ends.

        Raises:
            _Stopped: The session was asked to stop before the training ended.
        """
        self._saved_at = time.monotonic()
        progress = start
        note_release(self.training, self.folder, progress)
        for progress, finished in rounds(self.training, start):
            self._record(describe(self.training, finished, progress.control), report)
            stop = interrupt.asked or self.should_stop()
            self._checkpoint(progress, now=stop)
            if stop and progress.ended is None:
                raise _Stopped(progress)
            note_release(self.training, self.folder, progress)
        if start.ended and self.folder is not None and self._file is not None:
            if self.folder.is_finished:  # but a kill may have left no model
                save_result(self.training, self.folder, progress, self._file.last_check)
            else:  # the limits do not pay for a single round, or not for one more
                self._save(progress)
        return progress

    def _record(self, record: RoundRecord, report: OnRound) -> None:
        """Add a round to the history, then report it."""
        if self._file is None:
            self._records.append(record)
        else:
            self._file.append(record)
        report(record)

    def _checkpoint(self, progress: Progress, now: bool) -> None:
        """Write a checkpoint at the end, if ``now`` is true, or if the last one is old enough."""
        is_due = time.monotonic() - self._saved_at >= self.seconds_between_checkpoints
        if now or is_due or progress.ended:
            self._save(progress)

    def _save(self, progress: Progress) -> None:
        """Write a checkpoint, if there is a folder."""
        if self.folder is not None and self._file is not None:
            save(self.training, self.folder, progress, self._file.last_check)
            self._saved_at = time.monotonic()

    @contextmanager
    def _reporting(self) -> Iterator[OnRound]:
        """Yield a function that reports a round to callbacks and trackers; close trackers then."""
        with ExitStack() as trackers:
            listeners = list(self.on_round)
            if self.tracking is not None and self.folder is not None:
                track = trackers.enter_context(open_trackers(self.tracking, self.folder))
                listeners.append(track)

            def report(record: RoundRecord) -> None:
                for listener in listeners:
                    listener(record)

            yield report

    def _history(self) -> History:
        if self.folder is None:
            records = tuple(self._records)
        else:
            records = read_history(self.folder.history).records
        return History(records, self.training.engine.task.leading_metric)


class _Stopped(KeyboardInterrupt):
    """Carries the progress out of a session that was asked to stop.

    It passes through the context of the trackers as an exception, so that they record an
    interrupted run and not a finished one.
    """

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress


def open_trackers(tracking: Tracking, folder: RunFolder) -> AbstractContextManager[OnRound]:
    """Return a context manager that yields a function to report a round to the trackers."""
    job = folder.job.read_text(encoding="utf-8")
    run = TrackedRun(folder.path, folder.history, job, tracking.tables, folder.leading_metric())
    return track_rounds(tracking.names, run, tracking.warn)


@dataclass
class Interrupt:
    """Whether Ctrl-C was pressed.

    Attributes:
        asked: True after the first Ctrl-C. The session then stops when the round ends. A second
            Ctrl-C raises ``KeyboardInterrupt`` at once, and a resume repeats the rounds since the
            last checkpoint.
    """

    asked: bool = False

    def handle(self, *_: object) -> None:
        """Handle Ctrl-C, as a signal handler."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def delayed_interrupts() -> Iterator[Interrupt]:
    """Delay the effect of Ctrl-C to the end of a round, so that no half round is saved.

    Nothing changes outside the main thread, or if the program has its own handler for Ctrl-C.
    """
    interrupt = Interrupt()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return
    before = signal.signal(signal.SIGINT, interrupt.handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
