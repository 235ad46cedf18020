"""What the history records of a round that was played."""

import math
from typing import Any

import numpy as np

from dynamite_fl.records import FloatArray
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.engine import Evaluation
from dynamite_fl.training.progress import Round
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.training import Training

_MOST_LISTED = 200  # clients; rounds of more clients do not list them


def describe(training: Training, played: Round, control: Any) -> RoundRecord:
    """Return the record of a round, given the controller's state after it.

    Numbers that JSON cannot hold are None, so the record equals the one that is read from a file.
    """
    report, ledger = played.outcome.report, played.ledger
    sizes = report.batch_sizes
    estimates = training.controller.describe(control)
    return RoundRecord(
        round=ledger.rounds,
        seconds=ledger.seconds,
        cost=ledger.cost,
        samples=ledger.samples,
        sent_bytes=ledger.sent_bytes,
        round_seconds=_finite(played.outcome.seconds),
        local_steps=int(report.local_steps),
        batch_mean=float(sizes.mean()),
        batch_least=int(sizes.min()),
        batch_most=int(sizes.max()),
        slowest=_slowest(report),
        bound=_finite(played.plan.bound),
        probed=report.probe is not None,
        absent=tuple(report.clients[~report.present].tolist()),
        refused=played.refused,
        returned=played.returned,
        estimates={name: _finite(value) for name, value in estimates.items()},
        learning_rate=None if _is_constant(training) else report.learning_rate,
        epsilon=None if training.privacy is None else ledger.epsilon,
        **_evaluation_fields(played.evaluation),
        **_client_fields(report),
    )


def _is_constant(training: Training) -> bool:
    """Return whether all rounds have the learning rate that the job gives."""
    return training.learning_rate is not None and training.learning_rate.is_constant


def _evaluation_fields(evaluation: Evaluation | None) -> dict[str, Any]:
    """Return the fields about the new model; none if it was not evaluated."""
    if evaluation is None:
        return {}
    fields: dict[str, Any] = {
        "metrics": {name: _finite(value) for name, value in evaluation.metrics.items()},
        "loss": _finite(evaluation.loss),
    }
    if evaluation.class_accuracy:
        fields["class_accuracy"] = {
            str(label): _finite(accuracy) for label, accuracy in evaluation.class_accuracy.items()
        }
    if evaluation.client_metrics is not None:
        fields["client_metrics"] = tuple(map(_finite, evaluation.client_metrics))
    if evaluation.stream_loss is not None:
        fields["stream_loss"] = _finite(evaluation.stream_loss)
    return fields


def _client_fields(report: RoundReport) -> dict[str, Any]:
    """Return the fields with one entry for each client; none if there are too many clients."""
    if report.clients.size > _MOST_LISTED:
        return {}
    return {
        "clients": tuple(report.clients.tolist()),
        "batch_sizes": tuple(report.batch_sizes.tolist()),
        "step_seconds": _rounded(report.step_seconds),
        "comm_seconds": _rounded(report.comm_seconds),
        "arrived": tuple(None if math.isnan(count) else int(count) for count in report.samples),
    }


def _slowest(report: RoundReport) -> int | None:
    """Return the client that took longest; None if all were absent."""
    seconds = report.local_steps * report.step_seconds + report.comm_seconds
    if np.isnan(seconds).all():
        return None
    return int(report.clients[np.nanargmax(seconds)])


def _rounded(column: FloatArray) -> tuple[float | None, ...]:
    """Return numbers rounded to six digits, the precision of the measurement; None for NaN."""
    return tuple(None if math.isnan(value) else float(f"{value:.6g}") for value in column)


def _finite(value: float | None) -> float | None:
    """Return the value; None for NaN and infinity."""
    return value if value is not None and math.isfinite(value) else None
