"""The state of a training between two rounds, and the record of a finished round."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from dynamite_fl.control.estimate.speed import SpeedEstimates
from dynamite_fl.records import FloatArray, IntArray, Plan
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.engine import Evaluation, RoundOutcome
from dynamite_fl.training.guard import Guard
from dynamite_fl.training.ledger import Ledger
from dynamite_fl.training.private_mechanism import PrivacyState
from dynamite_fl.training.rate_choice import RateChoice
from dynamite_fl.training.server_step import ServerState


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a training between two rounds.

    A resume needs this and the states of the clients, and nothing else.

    Attributes:
        weights: The global model, (d,).
        ledger: The record of time and cost spent.
        plan: The plan of the next round.
        cohort: The indices of the next round's clients in the fleet, (m,).
        draws: How often each of them was drawn, (m,).
        probe: Whether the next round has a probe.
        samples: The number of samples that each client last reported, D_i, (n,).
        speeds: The estimated speed of every client.
        control: The controller's state.
        server: The server optimiser's state.
        rate: What is known about learning rates.
        trial: The kind of trial of learning rates in the next round, one of ``RATE_TRIALS``.
        guard: The last good model, and the losses by which models are judged.
        ended: The limit that ended the training; None if there is a next round.
        private: The state of differential privacy; None without it.
    """

    weights: Tensor
    ledger: Ledger
    plan: Plan
    cohort: IntArray
    draws: IntArray
    probe: bool
    samples: FloatArray
    speeds: SpeedEstimates
    control: Any
    server: ServerState = field(default_factory=ServerState)
    rate: RateChoice = field(default_factory=RateChoice)
    trial: str = "none"
    guard: Guard = field(default_factory=Guard)
    ended: str | None = None
    private: PrivacyState | None = None


@dataclass(frozen=True, eq=False)
class Round:
    """A finished round, for the history.

    Attributes:
        plan: The plan of the round.
        outcome: What the engine returned.
        ledger: The record of time and cost spent, including this round.
        refused: The number of updates that could not be averaged.
        returned: Whether the training returned to an earlier model, because the present one is
            ruined or the controller discards the round.
        evaluation: The evaluation of the new global model; None if it was not due.
    """

    plan: Plan
    outcome: RoundOutcome
    ledger: Ledger
    refused: int
    returned: bool
    evaluation: Evaluation | None


def with_reported(samples: FloatArray, report: RoundReport) -> FloatArray:
    """Return each client's number of samples, with the numbers that this round reported."""
    is_reported = report.samples >= 1  # False for NaN, the entry of an absent client
    clients, reported = report.clients[is_reported], report.samples[is_reported]
    if (samples[clients] == reported).all():
        return samples  # the usual case, which needs no copy
    changed = samples.copy()
    changed[clients] = reported
    return changed


def data_growth(samples: FloatArray, report: RoundReport) -> float:
    """Return how much the data of the round's clients has grown, as a factor, their median.

    Args:
        samples: The number of samples that each client last reported, (n,).
        report: The report of the round.
    """
    before, now = samples[report.clients], report.samples
    is_known = (before >= 1) & (now >= 1)  # False for NaN, the entry of an absent client
    return float(np.median(now[is_known] / before[is_known])) if is_known.any() else 1.0
