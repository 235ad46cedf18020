"""From the local models of a round to the new global model: the average and the server's step."""

from dataclasses import dataclass, replace

import torch

from dynamite_fl.errors import Diverged
from dynamite_fl.records import FloatArray
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.aggregate import are_sound, sound_average
from dynamite_fl.training.averaging import Mean
from dynamite_fl.training.cohort import Cohort, averaging_weights
from dynamite_fl.training.combine import combine
from dynamite_fl.training.engine import RoundOutcome
from dynamite_fl.training.mean_path import with_path
from dynamite_fl.training.private_average import private_average
from dynamite_fl.training.private_mechanism import PrivacyState
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.server_step import AveragedRound, server_step
from dynamite_fl.training.training import Training


@dataclass(frozen=True, eq=False)
class RoundAverage:
    """The average of a round's updates, and what the server learned by averaging them.

    Attributes:
        averaged: The average of the valid updates; None if there is none.
        refused: The number of invalid updates.
        report: The report of the round, with the mean path of the averaged updates if clients
            measured it.
        private: The state of differential privacy after the round; None without it.
    """

    averaged: AveragedRound | None
    refused: int
    report: RoundReport
    private: PrivacyState | None = None

    @property
    def are_all_refused(self) -> bool:
        """Whether there are updates, all of which are invalid."""
        return self.refused > 0 and self.averaged is None


def average_updates(training: Training, progress: Progress, outcome: RoundOutcome) -> RoundAverage:
    """Average the valid updates of a round, with differential privacy if the training has it.

    Without it, clients are weighted so that the way in which cohorts are drawn favours none.
    """
    if training.privacy is None or progress.private is None:
        return _plain_average(training, progress, outcome)
    averaged, outcome, refused, private = private_average(
        training.privacy, progress.private, progress.weights, outcome
    )
    return RoundAverage(averaged, refused, outcome.report, private)


def _plain_average(training: Training, progress: Progress, outcome: RoundOutcome) -> RoundAverage:
    """Average the valid updates of a round as the training's way to average has it."""
    weights, trained = progress.weights, training.engine.size.trained
    client_weights, factor = _client_weights(training, progress, outcome.report)
    is_mean = isinstance(training.averaging, Mean)
    if is_mean:
        average, is_averaged = sound_average(outcome.updates, client_weights, weights)
    else:
        is_averaged = are_sound(outcome.updates, weights)
    refused = int((~is_averaged).sum())
    if not is_averaged.any():
        return RoundAverage(None, refused, outcome.report)
    updates = [update for update, used in zip(outcome.updates, is_averaged, strict=True) if used]
    counted = client_weights[is_averaged]
    if is_mean:
        shares = counted / counted.sum()
        averaged = AveragedRound(weights, average, updates, shares)
        movement = averaged.movement
        averaged = averaged.stretched(factor, trained)
    else:  # which is no unbiased average anyway
        robust = combine(training.averaging, weights, updates, counted, trained)
        averaged = AveragedRound(weights, robust.average, updates, robust.shares, robust.scales)
        shares, movement = robust.shares * robust.scales, weights - robust.linear
    report = outcome.report
    if outcome.paths:  # of the local steps, whatever the server makes of their average
        report = with_path(outcome, is_averaged, shares, movement[:trained])
        report = _with_disagreement(report, averaged.first(trained))
    return RoundAverage(averaged, refused, report)


def _with_disagreement(report: RoundReport, averaged: AveragedRound) -> RoundReport:
    """Return the report of a round with how much the movements of its clients differ."""
    if report.path is None:
        return report
    return replace(report, path=replace(report.path, disagreement=averaged.disagreement))


def _client_weights(
    training: Training, progress: Progress, report: RoundReport
) -> tuple[FloatArray, float]:
    """Return the weights of present clients, and the factor of the mean movement."""
    cohort = Cohort(progress.cohort, progress.draws)
    selection = training.schedule.selection
    weights, factor = averaging_weights(cohort, selection, report.samples, progress.samples)
    return weights[report.present], factor


def take_server_step(
    training: Training, progress: Progress, averaged: AveragedRound | None
) -> Progress:
    """Return the progress with the global model that the server makes of the average.

    Args:
        training: The training.
        progress: The progress after the round, with the model before it.
        averaged: The average of the round; None if there is no update, so that the model stays.

    Raises:
        Diverged: The new global model is not finite.
    """
    if averaged is None:
        return progress
    trained = training.engine.size.trained
    averaged = replace(averaged, is_last=progress.ended is not None)
    weights, state = server_step(training.server, averaged, progress.server, trained)
    if not torch.isfinite(weights).all():
        raise Diverged(
            f"in round {progress.ledger.rounds} the step of the server is not finite: try a "
            "smaller server.learning_rate, or another server"
        )
    return replace(progress, weights=weights, server=state)
