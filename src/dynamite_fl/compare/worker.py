"""What a process of a comparison does: it runs one training after another, and reports on them.

It stops after the current round if a message on its pipe asks for it, or if the pipe ends.
"""

import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

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


@dataclass(frozen=True)
class Moved:
    """The share of its limits that a training has used, and in words what it has reached."""

    share: float
    reached: str | None


@dataclass(frozen=True)
class Warned:
    """A training that goes on has a warning."""

    message: str


@dataclass(frozen=True)
class Finished:
    """A training has ended, and has reached this, in words."""

    reached: str | None


@dataclass(frozen=True)
class Failed:
    """A training cannot go on."""

    reason: str


@dataclass(frozen=True)
class Stopped:
    """A training has stopped after a round, as it was asked to."""


def work(pipe: Connection, data_dir: Path | None) -> None:
    """Run one training after another, in a worker process, until the pipe ends."""
    with suppress(EOFError, OSError):
        while True:
            run: Run = pipe.recv()
            pipe.send(attempt(run, data_dir, pipe))


def attempt(run: Run, data_dir: Path | None, pipe: Connection) -> Finished | Failed | Stopped:
    """Run one training and say how it ended, whatever happens in it."""
    try:
        return _train(run, data_dir, pipe)
    except KeyboardInterrupt:
        return Stopped()
    except Diverged as error:
        write_atomically(RunFolder(run.path).diverged, f"{error}\n")  # it need not be tried again
        return Failed(str(error))
    except DynamiteError as error:
        return Failed(str(error))
    except Exception as error:  # a user's own task may raise anything; a bug shows its traceback
        text = user_traceback(error)
        if text is None:
            text = "".join(traceback.format_exception(with_bug_note(error)))
        return Failed(text)


def _train(run: Run, data_dir: Path | None, pipe: Connection) -> Finished | Stopped:
    """Run one training from where its folder is, until its end or until it is asked to stop."""
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
    return Stopped() if outcome.stopped_by is None else Finished(reporter.reached)


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
            self._send(Moved(share, self.reached))

    def warn(self, message: str) -> None:
        """Send a warning."""
        self._send(Warned(message))

    def _send(self, message: object) -> None:
        with suppress(OSError):  # the process that started this one is gone
            self.pipe.send(message)
