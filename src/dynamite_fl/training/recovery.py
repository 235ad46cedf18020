"""Recovery from ruined models: the training returns to the last good model, or it ends.

``guard.py`` tells good models from ruined ones. Here its judgement has consequences.
"""

import math
import warnings
from dataclasses import replace

from torch import Tensor

from dynamite_fl.control.estimate.rate import RateEstimate
from dynamite_fl.errors import Diverged
from dynamite_fl.records import LearningRateWarning
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.engine import Evaluation
from dynamite_fl.training.guard import Guard, after_return, judge, mean_loss
from dynamite_fl.training.progress import Progress, data_growth
from dynamite_fl.training.rate_choice import RateChoice, after_round
from dynamite_fl.training.training import Training

_PATIENCE = 10  # rounds with a ruined model, at a learning rate that the job gives
_MOST_RETURNS = 2  # in a row to the same model, likewise
_MOST_RETURNS_OF_CHOSEN_RATES = 8  # likewise, as chosen rates are lowered every time
_IDLE_ROUNDS = 10  # without a lower loss, after which a training at such a rate has stalled
_IDLE_ROUNDS_OF_CHOSEN_RATES = 5  # likewise
_MOST_STALLS = 1  # after so many, a loss that stays is taken for the best there is
_MOST_STALLS_OF_CHOSEN_RATES = 2  # likewise
_FIRST_RISE = 0.5  # of the test loss, which a model that has learned nothing yet may have
_SAFE_SHARE = 0.5  # of the largest stable rate, and of the rate that failed, in advice
_FAR = 0.5  # how far a stalled model has gone if the rate is large, relative to the first model
_LARGE_SHARE = 0.25  # of the largest stable rate; a rate above this share is not too small


def judge_model(
    training: Training, progress: Progress, report: RoundReport
) -> tuple[Progress, bool]:
    """Judge the model that a round began with, by the losses that clients measured at it.

    A training whose rate is chosen must learn something in its first rounds. If it does not, the
    model counts as ruined, and a smaller rate is tried. At a rate that the job gives, a model that
    has gone far without learning anything counts as ruined too. The training returns to the first
    model once, where clients search for a stable rate: this tells whether the rate is too large.
    With differential privacy, the server does not know clients' losses, and judges nothing.

    Returns:
        The progress with what the guard knows now, and whether the model is ruined.

    Raises:
        Diverged: Nothing was learned at a rate that the job gives and that is too large.
    """
    if training.privacy is not None:
        return progress, False
    if progress.guard.is_judged:  # other batches would say nothing new about the same model
        return replace(progress, guard=replace(progress.guard, is_judged=False)), False
    if not is_measured(report):
        return progress, False
    loss, variance = mean_loss(report.first_losses, report.samples)
    patience = 1 if training.learning_rate is None else _PATIENCE
    guard, is_ruined = judge(
        progress.guard,
        loss,
        variance,
        progress.weights,
        progress.server,
        patience,
        growth=data_growth(progress.samples, report),
    )
    rate, is_given = progress.rate, training.learning_rate is not None
    is_searched = is_given and guard.stalls > 0 and not guard.has_learned
    if is_searched and rate.last > rate.estimate.stable:  # False for NaN, before the search
        raise _diverged(training, rate)
    has_stalled = _has_stalled(training, guard, progress.weights)
    return replace(progress, guard=guard), is_ruined or has_stalled


def is_measured(report: RoundReport) -> bool:
    """Return whether somebody measured the loss of the model that the round began with."""
    return bool(report.present.any() and report.first_losses.size)


def _has_stalled(training: Training, guard: Guard, weights: Tensor) -> bool:
    """Return whether something should have been learned by now.

    At a rate that the job gives, a model that has not gone far may need more rounds.
    """
    if training.learning_rate is None:
        is_idle = guard.idle_rounds >= _IDLE_ROUNDS_OF_CHOSEN_RATES
        return is_idle and guard.stalls < _MOST_STALLS_OF_CHOSEN_RATES
    is_idle = guard.idle_rounds >= _IDLE_ROUNDS and guard.stalls < _MOST_STALLS
    return is_idle and _has_gone_far(guard, weights, training.engine.size.trained)


def _has_gone_far(guard: Guard, weights: Tensor, trained: int) -> bool:
    """Return whether a model that has learned nothing is far from the first one."""
    if guard.good_weights is None:
        return False
    first = guard.good_weights[:trained]
    return bool((weights[:trained] - first).norm() > _FAR * first.norm())


def return_to_good_model(
    training: Training, progress: Progress, report: RoundReport, *, is_ruined: bool
) -> tuple[Progress, RoundReport]:
    """Return the progress at the last good model, and the report of the round that is given up.

    Args:
        training: The training.
        progress: The progress after the model was judged.
        report: The report of the round.
        is_ruined: Whether the model was ruined before the round. Otherwise the round's own updates
            are invalid.

    Raises:
        Diverged: The training has returned to this model too often.
    """
    is_chosen = training.learning_rate is None
    is_stalled = _has_stalled(training, progress.guard, progress.weights)
    report = _without_measurements(progress.rate, report, is_ruined=is_ruined)
    if is_stalled and not is_chosen:  # perhaps because the rate is small
        report = replace(report, ruining_rate=None)
    guard = after_return(progress.guard, is_stalled=is_stalled)
    most = _MOST_RETURNS_OF_CHOSEN_RATES if is_chosen else _MOST_RETURNS
    if guard.returns >= most:
        raise _diverged(training, after_round(progress.rate, report, tried=False))
    good = progress.weights if guard.good_weights is None else guard.good_weights
    # Going far may have ruined the model, and the next rounds are shorter than those before.
    server = replace(guard.good_server, factor=1.0, last_movement=None)
    return replace(progress, weights=good, server=server, guard=guard), report


def _without_measurements(rate: RateChoice, report: RoundReport, *, is_ruined: bool) -> RoundReport:
    """Return the report without what was measured at a ruined model, and with the ruining rate."""
    is_known = is_ruined and not math.isnan(rate.last)
    ruining_rate = rate.last if is_known else report.learning_rate
    return replace(report, path=None, probe=None, ruining_rate=ruining_rate)


def judge_last_model(
    training: Training, progress: Progress, evaluation: Evaluation
) -> tuple[Progress, Evaluation, bool]:
    """Judge the last model by its test loss, as no later round measures its loss.

    With differential privacy, the last model is compared with the first one, and nothing else is
    known: test data is not protected, so that this spends nothing.

    Returns:
        The progress and the evaluation, both of the last good model if the last model is ruined;
        and whether that is so.

    Raises:
        Diverged: The last good model has learned nothing.
    """
    if training.privacy is not None:
        _warn_if_no_better(training, progress, evaluation)
        return progress, evaluation, False
    judged = _last_good_model(training, progress, evaluation)
    _warn_of_the_rate(training, progress)
    return judged


def _warn_if_no_better(training: Training, progress: Progress, evaluation: Evaluation) -> None:
    """Warn if the last model of a private training has a larger test loss than the first one."""
    first = training.engine.evaluate(training.engine.first_weights(), progress.ledger.rounds)
    if evaluation.loss < first.loss:
        return
    warnings.warn(
        f"the loss on the test data was {first.loss:.3g} before the training and is "
        f"{evaluation.loss:.3g} now: the learning rate {progress.rate.last:.3g} or the noise is "
        "too large; lower training.learning_rate, or have more clients in a round, fewer rounds or "
        "a larger epsilon",
        LearningRateWarning,
        stacklevel=3,
    )


def _last_good_model(
    training: Training, progress: Progress, evaluation: Evaluation
) -> tuple[Progress, Evaluation, bool]:
    guard = progress.guard
    is_small = training.learning_rate is not None and guard.stalls > 0  # or may be, at least
    if guard.is_back and not guard.has_learned and not is_small:
        raise _diverged(training, progress.rate)
    if guard.good_weights is None or guard.is_back:
        return progress, evaluation, False
    good = training.engine.evaluate(guard.good_weights, progress.ledger.rounds)
    rise = evaluation.loss - good.loss
    most = guard.limit - guard.best_loss
    if not guard.has_learned:  # a few steps on few samples may well raise the test loss a little
        most = max(most, _FIRST_RISE * abs(good.loss))
    if not math.isfinite(good.loss) or rise <= most:
        return progress, evaluation, False
    if not guard.has_learned:
        raise _diverged(training, progress.rate)
    return replace(progress, weights=guard.good_weights, server=guard.good_server), good, True


def _warn_of_the_rate(training: Training, progress: Progress) -> None:
    """Warn if the learning rate that the job gives is a bad one, as far as is known."""
    rate, guard = progress.rate, progress.guard
    if training.learning_rate is None:
        return
    is_idle = guard.idle_rounds >= _IDLE_ROUNDS or (guard.stalls > 0 and not guard.has_learned)
    if rate.largest > _LARGE_SHARE * rate.estimate.stable:  # known if the training has returned
        warnings.warn(
            f"at the learning rate {rate.largest:.3g} the model was ruined on the way, and the "
            f"result may be poor: {_advice(rate.estimate, rate.largest)}",
            LearningRateWarning,
            stacklevel=3,
        )
    elif is_idle:
        warnings.warn(
            f"the loss has hardly fallen in {progress.ledger.rounds} rounds: the learning rate "
            f"{rate.largest:.3g} seems too small; leave training.learning_rate out to have it "
            "chosen",
            LearningRateWarning,
            stacklevel=3,
        )


def _advice(estimate: RateEstimate, failed: float) -> str:
    """Say which learning rate would do instead of one that failed."""
    would_do = _SAFE_SHARE * min(estimate.stable, failed)
    if not math.isfinite(would_do):
        return "leave training.learning_rate out to have it chosen"
    return (
        f"set training.learning_rate to {would_do:.2g} or less, or leave it out to have it chosen"
    )


def _diverged(training: Training, rate: RateChoice) -> Diverged:
    """Return the error of a training that cannot learn at its learning rate."""
    message = f"at the learning rate {rate.last:.3g} the model is ruined and nothing is learned"
    if training.learning_rate is None:
        return Diverged(f"{message}, though the rate was lowered: check the data and the loss")
    return Diverged(f"{message}: {_advice(rate.estimate, rate.last)}")
