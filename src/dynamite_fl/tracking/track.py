"""Rounds reported to trackers while a training runs, without ever stopping it.

Each tracker knows the last round that it has recorded. After a resume, rounds that it knows are
skipped. After a failure, it is tried again after one round, then two, four and so on, because each
attempt at an unreachable server takes time, and once more at the end; every attempt reports all the
rounds that are missing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from dynamite_fl.errors import InvalidInput, MissingExtra
from dynamite_fl.tracking.tracker import TrackedRun, Tracker
from dynamite_fl.training.history import read_history
from dynamite_fl.training.round_record import RoundRecord

TRACKERS = ("tensorboard", "mlflow")

_NEEDED_MODULES = {"tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}


def check_installed(names: Sequence[str]) -> None:
    """Refuse trackers whose packages are not installed.

    Raises:
        MissingExtra: A package that a tracker needs is not installed.
    """
    for name in names:
        if any(find_spec(module) is None for module in _NEEDED_MODULES[name]):
            raise MissingExtra(f"training.track {name}", name)


def prepare_trackers(names: Sequence[str], folder: Path) -> None:
    """Create what the runs in a folder share, before several processes do so at once.

    Raises:
        InvalidInput: A tracker cannot be reached.
    """
    if "mlflow" in names:
        from dynamite_fl.tracking.mlflow import open_store

        folder.mkdir(parents=True, exist_ok=True)
        try:
            open_store(folder)
        except Exception as error:  # servers, databases and networks raise errors of their own
            raise InvalidInput(
                f"training.track has mlflow, but it cannot be reached: {error}; "
                "check MLFLOW_TRACKING_URI, or remove mlflow from training.track"
            ) from error


@contextmanager
def track_rounds(
    names: Sequence[str], run: TrackedRun, warn: Callable[[str], None]
) -> Iterator[Callable[[RoundRecord], None]]:
    """Yield a function that reports a round, to be called once the round is in the history.

    A tracker that fails does not stop the training.

    Args:
        names: The trackers.
        run: The training.
        warn: Called with a message when a tracker fails for the first time.
    """
    feeds = [_Feed(name, run, warn) for name in names]

    def track(record: RoundRecord) -> None:
        for feed in feeds:
            feed.report(record)

    with ExitStack() as closing:
        for feed in feeds:
            closing.push(lambda _, error, __, feed=feed: feed.close(error))
        yield track


class _Feed:
    """A tracker, with what has still to be reported to it."""

    def __init__(self, name: str, run: TrackedRun, warn: Callable[[str], None]) -> None:
        self.name, self.run, self.warn = name, run, warn
        self.tracker: Tracker | None = None
        self.has_failed = False
        self.unreported: RoundRecord | None = None  # the latest round, if not reported yet
        self.pause, self.paused = 0, 0  # rounds to wait after a failure, and those waited

    def report(self, record: RoundRecord) -> None:
        """Report all rounds up to this one, unless the feed pauses after a failure."""
        self.unreported = record
        self.paused += 1
        if self.paused >= self.pause:
            self._report_up_to(record)

    def _report_up_to(self, record: RoundRecord) -> None:
        self.pause, self.paused = max(1, 2 * self.pause), 0  # holds if this attempt fails
        with self._survive_errors():
            if self.tracker is None:
                self.tracker = _open(self.name, self.run)
            records: Sequence[RoundRecord] = [record]
            if record.round > self.tracker.last_round + 1:
                records = read_history(self.run.history)
            for candidate in records:
                if candidate.round > self.tracker.last_round:
                    self.tracker.record(candidate)
            self.pause, self.unreported = 0, None

    def close(self, error: BaseException | None) -> None:
        """Close the tracker; a training that reached its end reports missing rounds first."""
        if error is None and self.unreported is not None:
            self._report_up_to(self.unreported)
        if self.tracker is not None:
            with self._survive_errors():
                self.tracker.close(error)

    @contextmanager
    def _survive_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # an unreachable server, a full disk: training goes on
            if not self.has_failed:
                self.warn(f"{self.name} cannot record rounds, but training goes on: {error}")
            self.has_failed = True


def _open(name: str, run: TrackedRun) -> Tracker:
    if name == "tensorboard":
        from dynamite_fl.tracking.tensorboard import TensorBoard

        return TensorBoard(run)
    from dynamite_fl.tracking.mlflow import MLflow

    return MLflow(run)
