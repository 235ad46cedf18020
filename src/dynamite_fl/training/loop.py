"""The round loop, the same for all engines and controllers; ``run_round`` has its steps in order.

The loop keeps the ledger, which is the record of time and cost spent. So every controller is
charged by the same rules, and none can exceed the limits.

A probe is a measurement of the loss: clients take it when a round begins, if the controller
measures the loss. It costs traffic and computation, so it is left out of some rounds.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.control.controller import Controller, checked_decision
from dynamite_fl.control.estimate.speed import (
    SpeedEstimates,
    estimated_fleet,
    first_estimates,
    update_speeds,
)
from dynamite_fl.errors import Diverged
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import (
    Fleet,
    FloatArray,
    IntArray,
    LearningRateWarning,
    Limits,
    Plan,
)
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.aggregate import are_sound, sound_average
from dynamite_fl.training.averaging import Averaging, Mean
from dynamite_fl.training.cohort import Cohort, Selection, averaging_weights, draw_cohort
from dynamite_fl.training.combine import combine
from dynamite_fl.training.engine import Engine, Evaluation, RoundOrder, RoundOutcome
from dynamite_fl.training.guard import Guard, after_return, judge, mean_loss
from dynamite_fl.training.ledger import Ledger
from dynamite_fl.training.mean_path import with_path
from dynamite_fl.training.private_average import private_average
from dynamite_fl.training.private_cohort import draw_private_cohort
from dynamite_fl.training.private_mechanism import Mechanism, PrivacyState, require_a_round
from dynamite_fl.training.private_rules import check_private, rounds_left, with_private_rounds
from dynamite_fl.training.rate_choice import (
    RateChoice,
    after_round,
    rate_of_round,
    trial_of_round,
)
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.server_optimizer import Average, ServerOptimizer
from dynamite_fl.training.server_step import AveragedRound, ServerState, server_step
from dynamite_fl.training.traffic import path_traffic, probe_traffic, traffic

_MOST_RETURNS = 3  # in a row to the same model, at a learning rate that the job gives
_MOST_RETURNS_OF_CHOSEN_RATES = 8  # likewise, as chosen rates are lowered every time
_IDLE_ROUNDS = 10  # without a lower loss, at a learning rate that the job gives
_FIRST_RISE = 0.5  # of the test loss, which a model that has learned nothing yet may have
_SAFE_SHARE = 0.5  # of the largest stable rate, in advice


@dataclass(frozen=True)
class Schedule:
    """Which clients take part in a round, and in which rounds there are evaluations and probes.

    Attributes:
        selection: How the clients of a round are drawn.
        evaluate_every: The number of rounds from one evaluation to the next. The last round is
            always evaluated.
        probe_every: The number of rounds from one probe to the next.
        free_probes: Whether measurements for the controller cost nothing, as in the paper's
            experiments: neither money nor, on simulated devices, time. Clients then follow
            Algorithm 3 to the letter, and save no gradients.
        sketches: Whether clients send a sketch of a probe's gradient instead of the gradient.
        seed: The seed of everything that is drawn at random.
    """

    selection: Selection = field(default_factory=Selection)
    evaluate_every: int = 1
    probe_every: int = 1
    free_probes: bool = False
    sketches: bool = False
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Training:
    """Everything that a training consists of.

    Attributes:
        engine: Runs rounds, on simulated or on real devices.
        controller: Decides the local steps and batch sizes of each round.
        limits: The limits of the whole training.
        schedule: Which clients take part, and when there are evaluations and probes.
        fleet: The devices before the first round. Their speeds are first guesses.
        learning_rate: The learning rate of each round; None if it is to be chosen.
        server: How the server turns averages into global models.
        averaging: How the local models of a round are averaged.
        privacy: Protects what clients contribute; None for no differential privacy.
    """

    engine: Engine
    controller: Controller[Any]
    limits: Limits
    schedule: Schedule
    fleet: Fleet
    learning_rate: RateSchedule | None
    server: ServerOptimizer = field(default_factory=Average)
    averaging: Averaging = field(default_factory=Mean)
    privacy: Mechanism | None = None

    @property
    def planned_limits(self) -> Limits:
        """The limits with no more rounds than ``epsilon`` allows."""
        if self.privacy is None:
            return self.limits
        return with_private_rounds(self.limits, self.privacy, self.privacy.first_state())


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
        guard: The last good model, and what tells a good one from a ruined one.
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
        returned: Whether the training returned to an earlier model because the present one is
            ruined.
        evaluation: The evaluation of the new global model; None if it was not due.
    """

    plan: Plan
    outcome: RoundOutcome
    ledger: Ledger
    refused: int
    returned: bool
    evaluation: Evaluation | None


def begin(training: Training) -> Progress:
    """Plan the first round, and return the progress before it.

    Raises:
        Infeasible: The limits do not allow a single round.
    """
    samples = training.fleet.samples
    if training.privacy is not None:
        _check_private(training, training.privacy)
    cohort, private = _draw_cohort(training, samples, 1, _first_private_state(training))
    limits = _limits_for_controller(training, training.planned_limits)
    decision = training.controller.start(training.fleet, limits, cohort.clients)
    plan, control = checked_decision(training.controller, decision, cohort.clients)
    progress = Progress(
        weights=training.engine.first_weights(),
        ledger=Ledger(),
        plan=plan,
        cohort=cohort.clients,
        draws=cohort.draws,
        probe=False,
        samples=samples,
        speeds=first_estimates(training.fleet),
        control=control,
        private=private,
    )
    return _decide_probe(training, progress)


def rounds(training: Training, progress: Progress) -> Iterator[tuple[Progress, Round]]:
    """Run rounds until a limit ends the training; ``Progress.ended`` then names the limit."""
    while progress.ended is None:
        progress, finished = run_round(training, progress)
        yield progress, finished


def run_round(training: Training, progress: Progress) -> tuple[Progress, Round]:
    """Run one round.

    Raises:
        Diverged: The training returned to the same model too often, or nothing was learned until
            its end, or the server's step is not finite.
    """
    # 1. The engine has the cohort train as planned.
    order = _round_order(training, progress)
    outcome = training.engine.run_round(order)
    # 2. The guard judges the model that the round began with. With differential privacy nothing
    #    is known of clients' losses, so there is no guard.
    guard, is_ruined = progress.guard, False
    if training.privacy is None:
        guard, is_ruined = _judge(training, progress, outcome.report)
    # 3. The local models are averaged, so that no client is favoured by how cohorts are drawn.
    #    Invalid ones are refused. The server's optimiser makes the new global model of the
    #    average. If the model was ruined, or if all updates are invalid, the training returns to
    #    the last good model instead.
    progress, averaged, outcome, refused = _average(training, progress, outcome)
    returned = is_ruined or (refused > 0 and averaged is None)
    if returned:
        report = _ruined_report(progress, outcome.report, is_ruined=is_ruined)
        outcome = replace(outcome, report=report)
        progress = _return_to_good(training, progress, guard, report)
    else:
        weights, server = _server_step(training, progress, averaged)
        progress = replace(progress, weights=weights, server=server, guard=guard)
    # 4. The ledger is charged for all work and traffic.
    ledger = progress.ledger.charge(
        seconds=outcome.seconds,
        cost=_round_cost(training, order, outcome.samples, outcome.gradients / order.cohort.size),
        samples=outcome.samples,
        sent_bytes=outcome.sent_bytes,
        epsilon=_epsilon(training, progress),
        limits=training.limits,
    )
    # 5. The controller plans the next round, or the training ends if the limits allow none.
    rate = after_round(progress.rate, outcome.report, tried=order.rate_trial != "none")
    progress = _plan_next(training, replace(progress, ledger=ledger, rate=rate), outcome)
    # 6. The new global model is evaluated if that is due, and always at the end.
    evaluation = None
    if progress.ended or ledger.rounds % training.schedule.evaluate_every == 0:
        evaluation = training.engine.evaluate(progress.weights, ledger.rounds)
    if evaluation is not None and training.privacy is not None:
        evaluation = replace(evaluation, stream_loss=None)  # it is of clients' own samples
    if progress.ended and evaluation is not None:
        progress, evaluation, is_ruined = _judge_last(training, progress, evaluation)
        returned |= is_ruined
    return progress, Round(order.plan, outcome, ledger, refused, returned, evaluation)


def _judge(training: Training, progress: Progress, report: RoundReport) -> tuple[Guard, bool]:
    """Return the guard after a round, and whether the model that the round began with is ruined.

    A training whose rate is chosen must learn something in its first rounds. If it does not, the
    model counts as ruined, and a smaller rate is tried.
    """
    if not report.present.any() or not report.first_losses.size:  # nobody measured the loss
        return progress.guard, False
    loss, variance = mean_loss(report.first_losses, report.samples)
    guard, ruined = judge(progress.guard, loss, variance, progress.weights, progress.server)
    return guard, ruined or (guard.is_idle and training.learning_rate is None)


def _ruined_report(progress: Progress, report: RoundReport, *, is_ruined: bool) -> RoundReport:
    """Return the report of a round whose result is given up.

    Args:
        progress: The progress before the round.
        report: The report.
        is_ruined: Whether the model was ruined before the round. Otherwise the round's own updates
            cannot be averaged.
    """
    is_known = is_ruined and not math.isnan(progress.rate.last)
    rate = progress.rate.last if is_known else report.learning_rate
    return replace(report, path=None, probe=None, ruining_rate=rate)


def _return_to_good(
    training: Training, progress: Progress, guard: Guard, report: RoundReport
) -> Progress:
    """Return the progress at the last good model.

    Raises:
        Diverged: The training has returned to this model too often.
    """
    guard = after_return(guard)
    most = _MOST_RETURNS if training.learning_rate else _MOST_RETURNS_OF_CHOSEN_RATES
    if guard.returns >= most:
        raise _diverged(training, after_round(progress.rate, report, tried=False))
    good = progress.weights if guard.good_weights is None else guard.good_weights
    return replace(progress, weights=good, server=guard.good_server, guard=guard)


def _judge_last(
    training: Training, progress: Progress, evaluation: Evaluation
) -> tuple[Progress, Evaluation, bool]:
    """Judge the last model by its test loss, as no later round measures its loss.

    Returns:
        The progress and the evaluation, both of the last good model if the last model is ruined;
        and whether that is so.

    Raises:
        Diverged: The last good model has learned nothing.
    """
    guard = progress.guard
    if guard.is_back and not guard.has_learned:
        raise _diverged(training, progress.rate)
    if training.learning_rate is not None and guard.idle_rounds >= _IDLE_ROUNDS:
        warnings.warn(
            f"the loss has hardly fallen in {progress.ledger.rounds} rounds: the learning rate "
            f"{progress.rate.last:.3g} may be too large or too small; leave training.learning_rate "
            "out to have it chosen",
            LearningRateWarning,
            stacklevel=2,
        )
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


def _diverged(training: Training, rate: RateChoice) -> Diverged:
    """Return the error of a training that cannot learn at its learning rate."""
    message = f"at the learning rate {rate.last:.3g} the model is ruined and nothing is learned"
    if training.learning_rate is None:
        return Diverged(f"{message}, though the rate was lowered: check the data and the loss")
    would_do = _SAFE_SHARE * rate.estimate.stable
    if not math.isfinite(would_do):
        return Diverged(f"{message}: leave training.learning_rate out to have it chosen")
    return Diverged(
        f"{message}: set training.learning_rate to {would_do:.2g} or less, or leave it out to have "
        "it chosen"
    )


def _round_order(training: Training, progress: Progress) -> RoundOrder:
    """Return the order for the next round."""
    measures, ledger = training.controller.measures, progress.ledger
    share_spent = training.planned_limits.share_used(
        seconds=ledger.seconds, cost=ledger.cost, rounds=ledger.rounds
    )
    return RoundOrder(
        round_index=ledger.rounds + 1,
        weights=progress.weights,
        plan=progress.plan,
        cohort=progress.cohort,
        learning_rate=rate_of_round(
            progress.rate, progress.plan, training.learning_rate, share_spent
        ),
        probe=progress.probe,
        remember=measures == "loss",
        path=measures == "path",
        begins=ledger.seconds,
        seconds_left=training.limits.deadline - ledger.seconds,
        sketch=training.schedule.sketches,
        free_probes=training.schedule.free_probes,
        rate_trial=progress.trial,
    )


def _average(
    training: Training, progress: Progress, outcome: RoundOutcome
) -> tuple[Progress, AveragedRound | None, RoundOutcome, int]:
    """Average the updates of a round, with differential privacy if the training has it.

    Returns:
        The progress, with the privacy that was spent; and what ``_plain_average`` returns.
    """
    if training.privacy is None or progress.private is None:
        return progress, *_plain_average(training, progress, outcome)
    averaged, outcome, refused, private = private_average(
        training.privacy, progress.private, progress.weights, outcome
    )
    return replace(progress, private=private), averaged, outcome, refused


def _epsilon(training: Training, progress: Progress) -> float:
    """Return the privacy loss of all rounds so far; 0 without differential privacy."""
    if training.privacy is None or progress.private is None:
        return 0.0
    return training.privacy.accountant.epsilon(progress.private.releases)


def _plain_average(
    training: Training, progress: Progress, outcome: RoundOutcome
) -> tuple[AveragedRound | None, RoundOutcome, int]:
    """Average the updates of a round.

    Returns:
        The averaged updates, or None if there is no valid one; the outcome, with the mean path of
        the averaged updates if clients measured it; and the number of refused updates.
    """
    weights, trained = progress.weights, training.engine.size.trained
    cohort = Cohort(progress.cohort, progress.draws)
    client_weights, factor = averaging_weights(
        cohort, training.schedule.selection, outcome.report.samples, progress.samples
    )
    client_weights = client_weights[outcome.report.present]
    is_mean = isinstance(training.averaging, Mean)
    if is_mean:
        average, is_averaged = sound_average(outcome.updates, client_weights, weights)
    else:
        is_averaged = are_sound(outcome.updates, weights)
    refused = int((~is_averaged).sum())
    if not is_averaged.any():
        return None, outcome, refused
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
    if outcome.paths:  # of the local steps, whatever the server makes of their average
        report = with_path(outcome, is_averaged, shares, movement[:trained])
        outcome = replace(outcome, report=report)
    return averaged, outcome, refused


def _server_step(
    training: Training, progress: Progress, averaged: AveragedRound | None
) -> tuple[Tensor, ServerState]:
    """Return the new global model and the server optimiser's state; without updates, the old ones.

    Raises:
        Diverged: The new global model is not finite.
    """
    if averaged is None:
        return progress.weights, progress.server
    trained = training.engine.size.trained
    weights, state = server_step(training.server, averaged, progress.server, trained)
    if not torch.isfinite(weights).all():
        raise Diverged(
            f"in round {progress.ledger.rounds + 1} the step of the server is not finite: try a "
            "smaller server.learning_rate, or another server"
        )
    return weights, state


def _round_cost(training: Training, order: RoundOrder, samples: int, gradients: float) -> float:
    """Return the cost of a round.

    Args:
        training: The training.
        order: The order of the round.
        samples: The samples that the round computes on.
        gradients: The share of the cohort that sends the gradient of a probe.
    """
    limits = training.limits
    round_trips = float(traffic(order, training.engine.size, gradients))
    return limits.cost_per_sample * samples + limits.cost_per_round * round_trips


def _plan_next(training: Training, progress: Progress, outcome: RoundOutcome) -> Progress:
    """Return the progress with the next round's plan, or with the limit that ended the training."""
    remaining = progress.ledger.remaining(training.limits)
    if remaining is None:
        return replace(progress, ended=_used_up_limit(training.limits, progress.ledger))
    if is_privacy_used_up(training, progress):
        return replace(progress, ended="epsilon")
    samples = _with_reported(progress.samples, outcome.report)
    cohort, private = _draw_cohort(training, samples, progress.ledger.rounds + 1, progress.private)
    speeds = update_speeds(progress.speeds, outcome.report)
    fleet = estimated_fleet(training.fleet, speeds, samples)
    if private is not None:
        remaining = with_private_rounds(remaining, training.privacy, private)
    limits = _limits_for_controller(training, remaining)
    try:
        decision = training.controller.adapt(
            outcome.report, fleet, limits, cohort.clients, progress.control
        )
    except Infeasible as error:
        return replace(progress, ended=error.limit)
    plan, control = checked_decision(training.controller, decision, cohort.clients)
    progress = replace(
        progress,
        plan=plan,
        cohort=cohort.clients,
        draws=cohort.draws,
        samples=samples,
        speeds=speeds,
        control=control,
        private=private,
    )
    return _decide_probe(training, progress)


def is_privacy_used_up(training: Training, progress: Progress) -> bool:
    """Return whether one more round would spend more than epsilon."""
    if training.privacy is None or progress.private is None:
        return False
    return rounds_left(training.privacy, progress.private) == 0


def _check_private(training: Training, mechanism: Mechanism) -> None:
    """Refuse what differential privacy does not allow, and an epsilon without a single round."""
    check_private(
        mechanism,
        controller=training.controller,
        server=training.server,
        selection=training.schedule.selection,
        size=training.engine.size,
        averaging=training.averaging,
        learning_rate=training.learning_rate,
    )
    require_a_round(mechanism, training.limits)


def _first_private_state(training: Training) -> PrivacyState | None:
    return None if training.privacy is None else training.privacy.first_state()


def _draw_cohort(
    training: Training, samples: FloatArray, round_index: int, private: PrivacyState | None
) -> tuple[Cohort, PrivacyState | None]:
    """Draw the cohort of a round, and return it with the state of differential privacy."""
    schedule = training.schedule
    if training.privacy is None or private is None:
        return draw_cohort(samples, schedule.selection, schedule.seed, round_index), None
    clients, is_empty = draw_private_cohort(
        samples.size, training.privacy, schedule.seed, round_index
    )
    drawn_once = np.ones(clients.size, dtype=np.int64)
    return Cohort(clients, drawn_once), replace(private, is_cohort_empty=is_empty)


def _used_up_limit(limits: Limits, ledger: Ledger) -> str:
    """Return the name of the limit that is used up."""
    if limits.rounds is not None and ledger.rounds >= limits.rounds:
        return "rounds"
    return "deadline" if ledger.seconds >= limits.deadline else "budget"


def _with_reported(samples: FloatArray, report: RoundReport) -> FloatArray:
    """Return each client's number of samples, with the numbers that this round reported."""
    is_reported = report.samples >= 1  # False for NaN, the entry of an absent client
    clients, reported = report.clients[is_reported], report.samples[is_reported]
    if (samples[clients] == reported).all():
        return samples  # the usual case, which needs no copy
    changed = samples.copy()
    changed[clients] = reported
    return changed


def _limits_for_controller(training: Training, limits: Limits) -> Limits:
    """Return the limits that the controller plans with.

    A round costs more than ``cost_per_round`` if clients send measurements beside the model. A
    controller need not know this, because the price that it sees is raised accordingly.
    """
    measures, schedule = training.controller.measures, training.schedule
    if measures == "nothing" or schedule.free_probes:
        return limits
    model_size = training.engine.size
    if measures == "loss":
        added = probe_traffic(model_size, sketch=schedule.sketches) / schedule.probe_every
    else:
        added = path_traffic(model_size)
    return replace(limits, cost_per_round=limits.cost_per_round * (1 + added))


def _decide_probe(training: Training, progress: Progress) -> Progress:
    """Return the progress with the decision whether the next round has a probe.

    A probe that is due is left out if the budget does not pay for it. If the budget does not pay
    for the round without a probe either, the training ends.
    """
    round_index = progress.ledger.rounds + 1
    is_loss_measured = training.controller.measures == "loss"
    is_due = is_loss_measured and round_index % training.schedule.probe_every == 0
    trial = trial_of_round(
        progress.rate, progress.plan, training.learning_rate, is_back=progress.guard.is_back
    )
    for probe, rate_trial in dict.fromkeys([(is_due, trial), (is_due, "none"), (False, "none")]):
        progress = replace(progress, probe=probe, trial=rate_trial)
        order = _round_order(training, progress)
        most_samples = training.engine.most_samples(order)
        cost = _round_cost(training, order, most_samples, gradients=float(probe))
        if progress.ledger.keeps(training.limits, cost=cost):
            return progress
    return replace(progress, ended="budget")
