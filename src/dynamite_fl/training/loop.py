"""The round loop, one for all engines and controllers.

It owns the ledger, so every controller is charged alike and none can overspend.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from dynamite_fl.control.controller import Controller
from dynamite_fl.control.estimate.speed import (
    SpeedEstimates,
    estimated_fleet,
    first_estimates,
    update_speeds,
)
from dynamite_fl.errors import Diverged
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.aggregate import sound_average
from dynamite_fl.training.cohort import Selection, draw_cohort
from dynamite_fl.training.engine import Engine, Evaluation, RoundOrder, RoundOutcome
from dynamite_fl.training.ledger import Ledger
from dynamite_fl.training.mean_path import with_path
from dynamite_fl.training.traffic import probe_traffic, sketch_traffic, traffic


@dataclass(frozen=True)
class Schedule:
    """Which clients take part in a round, and when evaluations and probes are due.

    Attributes:
        selection: How the clients of a round are drawn.
        evaluate_every: The number of rounds from one evaluation to the next. The last round is
            always evaluated.
        probe_every: The number of rounds from one probe to the next.
        free_probes: Whether probes are free of charge, as in the paper's experiments.
        sketches: Whether probes send sketches of gradients instead of gradients.
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
        engine: What runs rounds.
        controller: What decides on local steps and batch sizes.
        limits: What training may use.
        schedule: Who takes part, and when evaluations and probes are due.
        fleet: The devices as they presented themselves.
    """

    engine: Engine
    controller: Controller[Any]
    limits: Limits
    schedule: Schedule
    fleet: Fleet


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a training between two rounds; with the clients' states, all a resume needs.

    Attributes:
        weights: The global model, (d,).
        ledger: The record of time and cost spent.
        plan: The plan of the next round.
        cohort: The places of the next round's clients.
        probe: Whether the next round measures the loss.
        samples: The number of samples that each client last reported, D_i, (n,).
        speeds: The estimated speed of every client.
        control: The controller's state.
        ended: The limit that ended the training; None while it goes on.
    """

    weights: Tensor
    ledger: Ledger
    plan: Plan
    cohort: IntArray
    probe: bool
    samples: FloatArray
    speeds: SpeedEstimates
    control: Any
    ended: str | None = None


@dataclass(frozen=True, eq=False)
class Round:
    """A round that was run, for the history.

    Attributes:
        plan: What was asked.
        outcome: What came of it.
        ledger: The record of time and cost after the round.
        refused: The number of updates that could not be averaged.
        evaluation: The evaluation of the new model, if it was due.
    """

    plan: Plan
    outcome: RoundOutcome
    ledger: Ledger
    refused: int
    evaluation: Evaluation | None


def begin(training: Training) -> Progress:
    """Return the state before the first round.

    Raises:
        Infeasible: Not one round fits the limits.
    """
    samples = training.fleet.samples
    cohort = draw_cohort(samples, training.schedule.selection, training.schedule.seed, 1)
    limits = _as_planned(training, training.limits)
    plan, control = training.controller.start(training.fleet, limits, cohort)
    progress = Progress(
        weights=training.engine.first_weights(),
        ledger=Ledger(),
        plan=plan,
        cohort=cohort,
        probe=False,
        samples=samples,
        speeds=first_estimates(training.fleet),
        control=control,
    )
    return _affordable(training, progress)


def rounds(training: Training, progress: Progress) -> Iterator[tuple[Progress, Round]]:
    """Run rounds until a limit ends the training; ``Progress.ended`` then names the limit."""
    while progress.ended is None:
        progress, finished = run_round(training, progress)
        yield progress, finished


def run_round(training: Training, progress: Progress) -> tuple[Progress, Round]:
    """Run one round.

    Raises:
        Diverged: Updates came, and none of them could be averaged.
    """
    # 1. The engine lets the cohort train as planned.
    order = _order(training, progress)
    outcome = training.engine.run_round(order)
    # 2. Local models are averaged, weighted by their samples; unsound ones are refused.
    weights, outcome, refused = _average(progress.weights, outcome)
    if refused and refused == len(outcome.updates):
        raise Diverged(order.round_index, refused)
    # 3. All work and traffic is charged.
    ledger = progress.ledger.charge(
        seconds=outcome.seconds,
        cost=_cost(training, outcome.samples, order),
        samples=outcome.samples,
        sent_bytes=outcome.sent_bytes,
    )
    # 4. The controller plans the next round, if what is left can pay for one.
    progress = _next(training, replace(progress, weights=weights, ledger=ledger), outcome)
    # 5. The model is evaluated if that is due, and always at the end.
    due = progress.ended or ledger.rounds % training.schedule.evaluate_every == 0
    evaluation = training.engine.evaluate(weights, ledger.rounds) if due else None
    return progress, Round(order.plan, outcome, ledger, refused, evaluation)


def _order(training: Training, progress: Progress) -> RoundOrder:
    measures = training.controller.measures
    return RoundOrder(
        round_index=progress.ledger.rounds + 1,
        weights=progress.weights,
        plan=progress.plan,
        cohort=progress.cohort,
        probe=progress.probe,
        remember=measures == "loss",
        path=measures == "path",
        begins=progress.ledger.seconds,
        seconds_left=training.limits.deadline - progress.ledger.seconds,
        sketch=training.schedule.sketches,
    )


def _affordable(training: Training, progress: Progress) -> Progress:
    """Decide whether the next round has a probe, or end the training if no round can be paid for.

    A probe is left out before a limit is overspent.
    """
    index = progress.ledger.rounds + 1
    due = training.controller.measures == "loss" and index % training.schedule.probe_every == 0
    for probe in (True, False) if due else (False,):
        progress = replace(progress, probe=probe)
        order = _order(training, progress)
        cost = _cost(training, training.engine.most_samples(order), order)
        if progress.ledger.keeps(training.limits, cost=cost):
            return progress
    return replace(progress, ended="budget")


def _cost(training: Training, samples: int, order: RoundOrder) -> float:
    sent = 1.0 if training.schedule.free_probes else traffic(order)
    limits = training.limits
    return limits.cost_per_sample * samples + limits.cost_per_round * sent


def _average(weights: Tensor, outcome: RoundOutcome) -> tuple[Tensor, RoundOutcome, int]:
    """Average the updates.

    Returns:
        The new global model, or the old one if nobody came; the outcome with the mean path of
        those who were averaged; and the number of updates that were refused.
    """
    samples = outcome.report.samples[outcome.report.present]
    after, fine = sound_average(outcome.updates, samples, weights)
    if outcome.paths and fine.any():
        outcome = replace(outcome, report=with_path(outcome, fine, weights - after))
    return after, outcome, int((~fine).sum())


def _next(training: Training, progress: Progress, outcome: RoundOutcome) -> Progress:
    """Return the progress with the next round's cohort and plan, or with what ended it."""
    remaining = progress.ledger.remaining(training.limits)
    if remaining is None:
        return replace(progress, ended=_reached(training.limits, progress.ledger))
    schedule, index = training.schedule, progress.ledger.rounds + 1
    samples = _last_reported(progress.samples, outcome.report)
    cohort = draw_cohort(samples, schedule.selection, schedule.seed, index)
    speeds = update_speeds(progress.speeds, outcome.report)
    fleet = estimated_fleet(training.fleet, speeds, samples)
    limits = _as_planned(training, remaining)
    try:
        plan, control = training.controller.adapt(
            outcome.report, fleet, limits, cohort, progress.control
        )
    except Infeasible as error:
        return replace(progress, ended=error.limit)
    progress = replace(
        progress, plan=plan, cohort=cohort, samples=samples, speeds=speeds, control=control
    )
    return _affordable(training, progress)


def _last_reported(samples: FloatArray, report: RoundReport) -> FloatArray:
    """Return each client's number of samples, with what this round reported."""
    reported = report.samples >= 1  # False for NaN
    if (samples[report.clients[reported]] == report.samples[reported]).all():
        return samples
    changed = samples.copy()
    changed[report.clients[reported]] = report.samples[reported]
    return changed


def _as_planned(training: Training, limits: Limits) -> Limits:
    """Return the limits as the controller should see them: its probes make rounds dearer."""
    measures, schedule = training.controller.measures, training.schedule
    if measures == "nothing" or schedule.free_probes:
        return limits
    d = training.engine.first_weights().numel()
    probe = probe_traffic(d, sketch=schedule.sketches) / schedule.probe_every
    dearer = 1 + (probe if measures == "loss" else sketch_traffic(d))
    return replace(limits, cost_per_round=limits.cost_per_round * dearer)


def _reached(limits: Limits, ledger: Ledger) -> str:
    if limits.rounds is not None and ledger.rounds >= limits.rounds:
        return "rounds"
    return "deadline" if ledger.seconds >= limits.deadline else "budget"
