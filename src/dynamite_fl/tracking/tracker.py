"""What a tracker is, and which figures of a round it records."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dynamite_fl.training.round_record import RoundRecord

METRICS = ("accuracy", "loss", "seconds", "cost", "local_steps", "batch_mean", "stream_loss")


@dataclass(frozen=True)
class TrackedRun:
    """A training whose rounds are reported to trackers.

    Attributes:
        folder: The run's folder.
        history: The run's history file.
        job: The job as TOML text.
        tables: The tables of the job.
    """

    folder: Path
    history: Path
    job: str
    tables: Mapping[str, Any]


class Tracker(Protocol):
    """An experiment tracker that records one training.

    Attributes:
        last_round: Number of the last recorded round; 0 if there is none.
    """

    last_round: int

    def record(self, record: RoundRecord) -> None:
        """Record a round, the next one after ``last_round``."""
        ...

    def close(self, error: BaseException | None) -> None:
        """End the recording; ``error`` is the exception that ended the training, if any."""
        ...


def round_metrics(record: RoundRecord) -> dict[str, float]:
    """Return the figures of a round that trackers record, by name.

    Example:
        >>> record = RoundRecord(round=1, seconds=3.0, cost=2.0, local_steps=4, batch_mean=8.5)
        >>> round_metrics(record)
        {'seconds': 3.0, 'cost': 2.0, 'local_steps': 4.0, 'batch_mean': 8.5}
    """
    values = {name: getattr(record, name) for name in METRICS}
    return {name: float(value) for name, value in values.items() if value is not None}
