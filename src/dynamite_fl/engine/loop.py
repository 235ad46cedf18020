"""The round loop, one for all engines and controllers.

It owns the ledger, so every controller is charged alike and none can overspend.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from dynamite_fl.control.controller import Controller
from dynamite_fl.engine.average import sound_average
from dynamite_fl.engine.cohort import Selection, draw_cohort
from dynamite_fl.engine.engine import Engine, Evaluation, RoundOrder, RoundOutcome
from dynamite_fl.engine.ledger import Ledger
from dynamite_fl.engine.path import with_path
from dynamite_fl.engine.traffic import probe_traffic, sketch_traffic, traffic
from dynamite_fl.plan.infeasible import Infeasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport


class Diverged(ValueError):  # noqa: N818  it says what the training did
    """Not one update of a round could be averaged: the training has left all numbers."""

    def __init__(self, round_index: int, refused: int) -> None:
        super().__init__(
            f"in round {round_index} all {refused} updates were refused, as not finite or of the "
            "wrong shape: try a smaller training.learning_rate"
        )


@dataclass(frozen=True)
class Schedule:
    """When what happens.

    Attributes:
        selection: Who takes part in a round.
        evaluate_every: Rounds from one evaluation to the next; the last is always evaluated.
        probe_every: Rounds from one probe to the next.
        free_probes: Whether probes are not charged, as in the paper's experiments.
        sketches: Whether probes send sketches of gradients in their place.
        seed: Of all that is drawn.
    """

    selection: Selection = field(default_factory=Selection)
    evaluate_every: int = 1
    probe_every: int = 1
    free_probes: bool = False
    sketches: bool = False
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Training:
    """Who trains what, and by which rules."""

    engine: Engine
    controller: Controller
    limits: Limits
    schedule: Schedule
    fleet: Fleet


@dataclass(frozen=True, eq=False)
class Progress:
    """All that a training has come to; with the clients' states, all that a resume needs.

    Attributes:
        weights: The global model, (d,).
        ledger: What was spent.
        plan: For the next round.
        cohort: Of the next round.
        samples: D_i as each client last reported it, (n,).
        control: The controller's state.
        ended: What ended the training; None while it goes on.
    """

    weights: Tensor
    ledger: Ledger
    plan: Plan
    cohort: IntArray
    samples: FloatArray
    control: Any
    ended: str | None = None


@dataclass(frozen=True, eq=False)
class Round:
    """A round that was played, for the history.

    Attributes:
        plan: What was asked.
        outcome: What came of it.
        ledger: After it.
        refused: How many updates could not be averaged.
        evaluation: Of the new model, if it was due.
    """

    plan: Plan
    outcome: RoundOutcome
    ledger: Ledger
    refused: int
    evaluation: Evaluation | None


def begin(training: Training) -> Progress:
    """The state before the first round.

    Raises:
        Infeasible: Not one round fits the limits.
    """
    samples = training.fleet.samples
    cohort = draw_cohort(samples, training.schedule.selection, training.schedule.seed, 1)
    limits = _as_planned(training, training.limits)
    plan, control = training.controller.start(training.fleet, limits, cohort)
    return Progress(training.engine.first_weights(), Ledger(), plan, cohort, samples, control)


def rounds(training: Training, progress: Progress) -> Iterator[tuple[Progress, Round | None]]:
    """Play until a limit ends it; the last item has a reason in ``Progress.ended``."""
    while progress.ended is None:
        progress, played = play(training, progress)
        yield progress, played


def play(training: Training, progress: Progress) -> tuple[Progress, Round | None]:
    """One round, or the end if it would cost more than is left.

    Raises:
        Diverged: Updates came, and not one of them could be averaged.
    """
    # 1. What may it cost? Probes are left out before a limit is touched.
    order = _affordable(training, progress)
    if order is None:
        return replace(progress, ended="budget"), None
    # 2. The engine plays it.
    outcome = training.engine.play(order)
    # 3. Local models are averaged by their samples; unsound ones are refused.
    weights, outcome, refused = _average(progress.weights, outcome)
    if refused and refused == len(outcome.updates):
        raise Diverged(order.round_index, refused)
    # 4. All work and traffic is charged.
    cost = _cost(training, outcome.samples, order)
    ledger = progress.ledger.charge(
        seconds=outcome.seconds,
        cost=cost,
        samples=outcome.samples,
        sent_bytes=outcome.sent_bytes,
    )
    # 5. The controller decides on the next round, if there is one.
    progress = _next(training, replace(progress, weights=weights, ledger=ledger), outcome)
    # 6. Now and then, and at the end, the model is judged.
    due = progress.ended or ledger.rounds % training.schedule.evaluate_every == 0
    evaluation = training.engine.evaluate(weights, ledger.rounds) if due else None
    return progress, Round(order.plan, outcome, ledger, refused, evaluation)


def _affordable(training: Training, progress: Progress) -> RoundOrder | None:
    """The next round's order, without a probe if that is too dear; None if all is."""
    index = progress.ledger.rounds + 1
    measures = training.controller.measures
    due = measures == "loss" and index % training.schedule.probe_every == 0
    for probe in (True, False) if due else (False,):
        order = RoundOrder(
            round_index=index,
            weights=progress.weights,
            plan=progress.plan,
            cohort=progress.cohort,
            probe=probe,
            remember=measures == "loss",
            path=measures == "path",
            begins=progress.ledger.seconds,
            seconds_left=training.limits.deadline - progress.ledger.seconds,
            sketch=training.schedule.sketches,
        )
        cost = _cost(training, training.engine.samples_of(order), order)
        if progress.ledger.keeps(training.limits, cost=cost):
            return order
    return None


def _cost(training: Training, samples: int, order: RoundOrder) -> float:
    sent = 1.0 if training.schedule.free_probes else traffic(order)
    limits = training.limits
    return limits.cost_per_sample * samples + limits.cost_per_round * sent


def _average(weights: Tensor, outcome: RoundOutcome) -> tuple[Tensor, RoundOutcome, int]:
    """The new global model, the old one if nobody came; what it shows; and how many were refused.

    The path of the local steps is that of those who were averaged.
    """
    samples = outcome.report.samples[outcome.report.present]
    after, fine = sound_average(outcome.updates, samples, weights)
    if outcome.paths and fine.any():
        outcome = replace(outcome, report=with_path(outcome, fine, weights - after))
    return after, outcome, int((~fine).sum())


def _next(training: Training, progress: Progress, outcome: RoundOutcome) -> Progress:
    """Progress with the next round's cohort and plan, or with what ended it."""
    remaining = progress.ledger.remaining(training.limits)
    if remaining is None:
        return replace(progress, ended=_reached(training.limits, progress.ledger))
    schedule, index = training.schedule, progress.ledger.rounds + 1
    samples = _last_reported(progress.samples, outcome.report)
    cohort = draw_cohort(samples, schedule.selection, schedule.seed, index)
    seen = _as_planned(training, remaining)
    try:
        plan, control = training.controller.adapt(outcome.report, seen, cohort, progress.control)
    except Infeasible as error:
        return replace(progress, ended=error.limit)
    progress = replace(progress, plan=plan, cohort=cohort, samples=samples, control=control)
    return progress if _affordable(training, progress) else replace(progress, ended="budget")


def _last_reported(samples: FloatArray, report: RoundReport) -> FloatArray:
    told = np.isfinite(report.samples)
    if (samples[report.clients[told]] == report.samples[told]).all():
        return samples
    changed = samples.copy()
    changed[report.clients[told]] = report.samples[told]
    return changed


def _as_planned(training: Training, limits: Limits) -> Limits:
    """Limits as a controller should see them: its probes make rounds dearer."""
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
