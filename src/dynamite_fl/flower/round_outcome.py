"""The outcome of a round on real machines, computed from the answers of the nodes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dynamite_fl.client.messages import Reply
from dynamite_fl.flower.messages import Work
from dynamite_fl.training.collect import round_report
from dynamite_fl.training.engine import RoundOrder, RoundOutcome


@dataclass(frozen=True, eq=False)
class Answer:
    """The valid answer of one device to its order.

    Attributes:
        reply: The result of Algorithm 3.
        work: What the device computed, and how long it took.
        comm_seconds: Seconds that order and reply spent on the network.
    """

    reply: Reply
    work: Work
    comm_seconds: float


def round_outcome(
    order: RoundOrder,
    asked: Collection[int],
    answers: dict[int, Answer],
    *,
    seconds: float,
    max_samples: int,
    weights: Tensor,
) -> RoundOutcome:
    """Summarise a round.

    Args:
        order: The round that was ordered.
        asked: The clients that were sent an order.
        answers: The answers that arrived in time and are valid, by client.
        seconds: The duration of the round.
        max_samples: The largest number of samples that the round may be charged for.
        weights: A model, for the size of what was sent.
    """
    by_cohort = [answers.get(int(client)) for client in order.cohort]
    replies = [None if answer is None else answer.reply for answer in by_cohort]
    arrived = [reply for reply in replies if reply is not None]
    step_seconds = np.array([a.work.step_seconds if a else np.nan for a in by_cohort])
    comm_seconds = np.array([a.comm_seconds if a else np.nan for a in by_cohort])
    return RoundOutcome(
        report=round_report(order, replies, step_seconds, comm_seconds),
        updates=[reply.weights for reply in arrived],
        paths=[reply.path for reply in arrived if reply.path is not None],
        seconds=seconds,
        samples=min(_samples(order, asked, by_cohort), max_samples),
        sent_bytes=_sent_bytes(len(asked), arrived, weights),
        gradients=sum(reply.gradient is not None for reply in arrived),
    )


def _samples(order: RoundOrder, asked: Collection[int], answers: Sequence[Answer | None]) -> int:
    """Count the samples computed on; a client that did not answer may have computed them all."""
    samples = 0
    sizes = order.plan.batch_sizes
    for client, size, answer in zip(order.cohort, sizes, answers, strict=True):
        if answer is not None:
            measured = 0 if order.free_probes else answer.reply.measured_samples
            samples += answer.work.computed + measured
        elif int(client) in asked:
            samples += order.plan.local_steps * int(size)
    return samples


def _sent_bytes(orders: int, replies: Sequence[Reply], weights: Tensor) -> int:
    """Count the bytes of models sent out, and of models, gradients and sketches received."""
    numbers = (orders + len(replies)) * weights.numel()
    numbers += sum(reply.gradient.numel() for reply in replies if reply.gradient is not None)
    for path in (reply.path for reply in replies if reply.path is not None):
        numbers += path.first_half.numel()
        numbers += 0 if path.gradient_sum is None else path.gradient_sum.numel()
    return numbers * weights.element_size()
