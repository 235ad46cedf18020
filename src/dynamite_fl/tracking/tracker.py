"""What a tracker is, and which figures of a round it records."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.training.round_record import RoundRecord

_FIELDS = (
    "loss",
    "seconds",
    "cost",
    "local_steps",
    "batch_mean",
    "learning_rate",
    "epsilon",
    "stream_loss",
)


@dataclass(frozen=True)
class TrackedRun:
    """A training whose rounds are reported to trackers.

    Attributes:
        folder: The run's folder.
        history: The run's history file.
        job: The job as TOML text.
        tables: The tables of the job.
        leading_metric: The metric by which the training is judged.
    """

    folder: Path
    history: Path
    job: str
    tables: Mapping[str, Any]
    leading_metric: LeadingMetric = ACCURACY


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


def round_metrics(record: RoundRecord, leading_metric: LeadingMetric) -> dict[str, float]:
    """Return the figures of a round that trackers record, by name.

    They are all metrics, the mean and the worst leading metric of clients with test data of their
    own, the losses, and what the round took.

    Example:
        >>> record = RoundRecord(
        ...     round=1,
        ...     seconds=3.0,
        ...     cost=2.0,
        ...     local_steps=4,
        ...     batch_mean=8.5,
        ...     metrics={"accuracy": 0.75},
        ...     client_metrics=(0.5, 1.0),
        ... )
        >>> figures = round_metrics(record, ACCURACY)
        >>> [figures[name] for name in ("accuracy", "client_mean", "worst_client", "cost")]
        [0.75, 0.75, 0.5, 2.0]
    """
    values: dict[str, float | None] = dict(record.metrics or {})
    known = [value for value in record.client_metrics or () if value is not None]
    if known:
        values["client_mean"] = statistics.fmean(known)
        values["worst_client"] = leading_metric.worst(known)
    values |= {name: record.value(name) for name in _FIELDS}
    return {name: float(value) for name, value in values.items() if value is not None}
