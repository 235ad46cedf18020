"""Rounds told to trackers that people use already, from the lines of the history.

What a tracker is told of is decided by the last round that it knows: after a resume no round is
told twice, and after a failure what was missed is told later: after one round, then two, four and
so on, since each attempt at a server that is away takes its time, and at the end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from dynamite_fl.report.extras import MissingExtra
from dynamite_fl.report.history import Line, read_history

TRACKERS = ("tensorboard", "mlflow")
METRICS = ("accuracy", "loss", "seconds", "cost", "local_steps", "batch_mean", "stream_loss")

_NEEDS = {"tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}


@dataclass(frozen=True)
class Tracked:
    """A training that trackers are told of.

    Attributes:
        folder: Of the run.
        history: Its file with a line a round.
        job: As text.
        tables: The job's.
    """

    folder: Path
    history: Path
    job: str
    tables: Mapping[str, Any]


class Tracker(Protocol):
    """Who is told of rounds.

    Attributes:
        last_round: That it knows; 0 if none.
    """

    last_round: int

    def record(self, line: Line) -> None:
        """Take down a round, the next after ``last_round``."""
        ...

    def close(self, error: BaseException | None) -> None:
        """The end, of the training or because of an error."""
        ...


def require(names: Sequence[str]) -> None:
    """Make sure that these trackers can be used.

    Raises:
        MissingExtra: What one of them needs is not installed.
    """
    for name in names:
        if any(find_spec(module) is None for module in _NEEDS[name]):
            raise MissingExtra(f"training.track {name}", name)


def prepare(names: Sequence[str], folder: Path) -> None:
    """Set up what runs in a folder share, before several processes want to do so at once.

    Raises:
        ValueError: A tracker cannot be reached.
    """
    if "mlflow" in names:
        from dynamite_fl.report.mlflow import open_store

        folder.mkdir(parents=True, exist_ok=True)
        try:
            open_store(folder)
        except Exception as error:  # of a server, a database, the network: each has its own
            raise ValueError(
                f"training.track has mlflow, which cannot be used: {error}; "
                "see to MLFLOW_TRACKING_URI, or leave it out of training.track"
            ) from error


def metrics(line: Line) -> dict[str, float]:
    """The figures of a round that trackers take.

    Example:
        >>> metrics({"round": 1, "accuracy": None, "cost": 2.0, "local_steps": 4})
        {'cost': 2.0, 'local_steps': 4.0}
    """
    return {key: float(line[key]) for key in METRICS if line.get(key) is not None}


@contextmanager
def tracking(
    names: Sequence[str], tracked: Tracked, tell: Callable[[str], None]
) -> Iterator[Callable[[Line], None]]:
    """A function that is to be called with each line once it is in the history.

    A tracker that fails does not stop the training; ``tell`` is called with why, once.
    """
    feeds = [_Feed(name, tracked, tell) for name in names]

    def track(line: Line) -> None:
        for feed in feeds:
            feed.take(line)

    with ExitStack() as ending:
        for feed in feeds:
            ending.push(lambda _, error, __, feed=feed: feed.close(error))
        yield track


class _Feed:
    """A tracker, and what it has still to be told."""

    def __init__(self, name: str, tracked: Tracked, tell: Callable[[str], None]) -> None:
        self.name, self.tracked, self.tell = name, tracked, tell
        self.tracker: Tracker | None = None
        self.failed = False
        self.missed: Line | None = None  # the last round that is still to be told
        self.wait, self.waited = 0, 0  # rounds, after a failure

    def take(self, line: Line) -> None:
        """Tell of a round, and of those before it that are not known yet, unless it is to wait."""
        self.missed = line
        self.waited += 1
        if self.waited >= self.wait:
            self._tell_of(line)

    def _tell_of(self, line: Line) -> None:
        self.wait, self.waited = max(1, 2 * self.wait), 0  # if it fails
        with self._surviving():
            if self.tracker is None:
                self.tracker = _open(self.name, self.tracked)
            lines: Sequence[Line] = [line]
            if line["round"] > self.tracker.last_round + 1:
                lines = read_history(self.tracked.history).lines
            for each in lines:
                if each["round"] > self.tracker.last_round:
                    self.tracker.record(each)
            self.wait, self.missed = 0, None

    def close(self, error: BaseException | None) -> None:
        """The end; what was missed is told before, unless the training may still go on."""
        if error is None and self.missed is not None:
            self._tell_of(self.missed)
        if self.tracker is not None:
            with self._surviving():
                self.tracker.close(error)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a server that is away, a full disk: training goes on
            if not self.failed:
                self.tell(f"{self.name} cannot be told of rounds: {error}")
            self.failed = True


def _open(name: str, tracked: Tracked) -> Tracker:
    if name == "tensorboard":
        from dynamite_fl.report.tensorboard import TensorBoard

        return TensorBoard(tracked)
    from dynamite_fl.report.mlflow import MLflow

    return MLflow(tracked)
