"""The outcome of a round on simulated devices, from their replies and the virtual clock."""

import math
from collections.abc import Sequence

from dynamite_fl.client.messages import Reply
from dynamite_fl.records import FloatArray
from dynamite_fl.simulation.clock import Timing
from dynamite_fl.training.collect import round_report
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
        report=round_report(order, replies, timing.step_seconds, timing.comm_seconds),
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
