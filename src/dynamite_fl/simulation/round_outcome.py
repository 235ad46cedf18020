"""The outcome of a round on simulated devices, from their replies and the virtual clock."""

import math
from collections.abc import Sequence

import numpy as np

from dynamite_fl.client.messages import Reply
from dynamite_fl.records import FloatArray
from dynamite_fl.reports import RoundReport
from dynamite_fl.simulation.clock import Timing
from dynamite_fl.training.collect import collect, column, rate_of_steps
from dynamite_fl.training.engine import RoundOrder, RoundOutcome


def round_outcome(
    order: RoundOrder,
    replies: Sequence[Reply | None],
    timing: Timing,
    *,
    extra_samples: FloatArray,
    sent_bytes: FloatArray,
    gradients: int,
) -> RoundOutcome:
    """Summarise a round.

    Args:
        order: The order of the round.
        replies: The reply of each client of the cohort; None if it was not in time.
        timing: The times of the round.
        extra_samples: The samples that each client computes on beside its planned batches, (m,).
        sent_bytes: The bytes that each client receives and sends, (m,).
        gradients: The number of clients that sent the gradient of a probe, in time or not.
    """
    samples = order.plan.local_steps * order.plan.batch_sizes + extra_samples
    arrived = [reply for reply in replies if reply is not None]
    return RoundOutcome(
        report=_report(order, replies, timing),
        updates=[reply.weights for reply in arrived],
        paths=[reply.path for reply in arrived if reply.path is not None],
        seconds=_round_seconds(order, timing),
        samples=math.ceil((timing.completed * samples).sum()),
        sent_bytes=int(sent_bytes[timing.completed > 0].sum()),
        gradients=gradients,
    )


def _round_seconds(order: RoundOrder, timing: Timing) -> float:
    """Return the seconds until the last client has finished, at most those until the deadline.

    If no client takes part, the round takes as long as planned.
    """
    if not timing.completed.any():
        return min(order.plan.seconds / order.plan.rounds, order.seconds_left)
    return min(float(timing.seconds.max()), order.seconds_left)


def _report(order: RoundOrder, replies: Sequence[Reply | None], timing: Timing) -> RoundReport:
    """Return the round's report for the controller."""
    present = np.array([reply is not None for reply in replies], dtype=bool)
    samples = column(replies, "samples")
    return RoundReport(
        round_index=order.round_index,
        clients=order.cohort,
        local_steps=order.plan.local_steps,
        learning_rate=rate_of_steps(order, replies),
        batch_sizes=order.plan.batch_sizes,
        present=present,
        samples=samples,
        step_seconds=np.where(present, timing.step_seconds, np.nan),
        comm_seconds=np.where(present, timing.comm_seconds, np.nan),
        first_losses=column(replies, "first_loss"),
        stable_rates=column(replies, "stable_rate"),
        steepness=column(replies, "steepness"),
        probe=collect(replies, samples) if order.probe else None,
    )
