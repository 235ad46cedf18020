"""The round loop, the same for all engines and controllers; ``run_round`` has its steps in order.

The loop keeps the ledger, which is the record of time and cost spent. So every controller is
charged by the same rules, and none can exceed the limits.

A probe is a measurement of the loss: clients take it when a round begins, if the controller
measures the loss. It costs traffic and computation, so it is left out of some rounds.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dynamite_fl.control.controller import checked_decision
from dynamite_fl.control.estimate.speed import estimated_fleet, first_estimates, update_speeds
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import FloatArray, Limits
from dynamite_fl.training.cohort import Cohort, draw_cohort
from dynamite_fl.training.engine import Evaluation, RoundOrder, RoundOutcome
from dynamite_fl.training.ledger import Ledger
from dynamite_fl.training.new_model import average_updates, take_server_step
from dynamite_fl.training.private_cohort import draw_private_cohort
from dynamite_fl.training.private_mechanism import Mechanism, PrivacyState, require_a_round
from dynamite_fl.training.private_rules import (
    check_private,
    is_epsilon_used_up,
    spent_epsilon,
    with_private_rounds,
)
from dynamite_fl.training.progress import Progress, Round, with_reported
from dynamite_fl.training.rate_choice import after_round, racers, rate_of_round, trial_of_round
from dynamite_fl.training.recovery import (
    is_measured,
    judge_last_model,
    judge_model,
    return_to_good_model,
)
from dynamite_fl.training.traffic import path_traffic, probe_traffic, traffic
from dynamite_fl.training.training import Training

_RACE_SHARE = 0.1  # of what remains, which a race of learning rates may take at the worst


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
    # 2. The guard judges the model that the round began with.
    progress, is_ruined = judge_model(training, progress, outcome.report)
    # 3. The server averages the valid updates.
    average = average_updates(training, progress, outcome)
    progress, report = replace(progress, private=average.private), average.report
    # 4. If the model was ruined, or if all updates are invalid, the training returns to the last
    #    good model.
    returned = is_ruined or average.are_all_refused
    if returned:
        progress, report = return_to_good_model(training, progress, report, is_ruined=is_ruined)
    outcome = replace(outcome, report=report)
    # 5. The ledger is charged for all work and traffic.
    ledger = _charged(training, progress, order, outcome)
    # 6. The controller plans the next round, or the training ends if the limits allow none.
    rate = after_round(progress.rate, report, tried=order.rate_trial != "none")
    progress = _plan_next(training, replace(progress, ledger=ledger, rate=rate), outcome)
    # 7. Otherwise the server makes the new global model of the average, unless the controller
    #    discards the round.
    if progress.ended is None and progress.plan.begins_again and not returned:
        guard = replace(progress.guard, is_judged=is_measured(report))
        progress = replace(progress, guard=guard)
        returned = True
    elif not returned:
        progress = take_server_step(training, progress, average.averaged)
    # 8. The new global model is evaluated if that is due, and always at the end.
    evaluation = _evaluation_if_due(training, progress)
    # 9. No later round judges the last model, so that its evaluation does.
    if progress.ended and evaluation is not None:
        progress, evaluation, is_ruined = judge_last_model(training, progress, evaluation)
        returned |= is_ruined
    return progress, Round(order.plan, outcome, ledger, average.refused, returned, evaluation)


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
        racers=_racers(training, progress),
    )


def _racers(training: Training, progress: Progress) -> list[int]:
    """Return the positions in the cohort of those in whose search larger rates race."""
    remaining = progress.ledger.remaining(training.limits)
    if progress.trial not in ("search", "adopt") or remaining is None:
        return []
    fleet = estimated_fleet(training.fleet, progress.speeds, progress.samples)
    cost = remaining.cost_per_sample
    return racers(
        fleet.subset(progress.cohort),
        seconds=_RACE_SHARE * remaining.deadline,
        samples=_RACE_SHARE * remaining.budget / cost if cost > 0 else math.inf,
    )


def _charged(
    training: Training, progress: Progress, order: RoundOrder, outcome: RoundOutcome
) -> Ledger:
    """Return the ledger after a round."""
    share_with_gradient = outcome.gradients / order.cohort.size
    return progress.ledger.charge(
        seconds=outcome.seconds,
        cost=_round_cost(training, order, outcome.samples, share_with_gradient),
        samples=outcome.samples,
        sent_bytes=outcome.sent_bytes,
        epsilon=spent_epsilon(training.privacy, progress.private),
        limits=training.limits,
    )


def _evaluation_if_due(training: Training, progress: Progress) -> Evaluation | None:
    """Evaluate the global model at the end and every so many rounds; otherwise return None."""
    rounds_done = progress.ledger.rounds
    if not progress.ended and rounds_done % training.schedule.evaluate_every != 0:
        return None
    evaluation = training.engine.evaluate(progress.weights, rounds_done)
    if training.privacy is not None:
        evaluation = replace(evaluation, stream_loss=None)  # it is of clients' own samples
    return evaluation


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
        return replace(progress, ended=progress.ledger.used_up(training.limits))
    if is_epsilon_used_up(training.privacy, progress.private):
        return replace(progress, ended="epsilon")
    samples = with_reported(progress.samples, outcome.report)
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
