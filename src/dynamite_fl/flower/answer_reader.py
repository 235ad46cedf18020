"""Reading the answer of a node to an order, and checking what can be checked of it alone."""

import math
from dataclasses import dataclass, replace

from torch import Tensor

from dynamite_fl.client.messages import Order, Reply
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.client.rate_trial import most_trial_samples
from dynamite_fl.flower.message_checks import check_path, checked_reply
from dynamite_fl.flower.messages import (
    TrainOrder,
    TrainReply,
    from_content,
)
from dynamite_fl.flower.messenger import Response
from dynamite_fl.flower.plausible import Implausible, check_seconds, check_work
from dynamite_fl.flower.round_outcome import Answer
from dynamite_fl.flower.wire import Malformed


@dataclass(frozen=True)
class KnownNode:
    """What the server knows of a node before its answer.

    Attributes:
        samples: The number of samples that it was last believed to have.
        streams: Whether it said at its introduction that samples keep arriving.
    """

    samples: int
    streams: bool


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads answers.

    Attributes:
        like: A model of the right shape, (d,).
        trained: The number of trained weights, which come first in it.
        max_samples: The largest number of samples that a node may claim to hold.
        settings: How nodes measure gradient variance and drift.
        least_batch: The least batch of the model; None if any will do.
    """

    like: Tensor
    trained: int
    max_samples: int
    settings: ProbeSettings
    least_batch: int | None = None

    def read(self, sent: TrainOrder, response: Response, node: KnownNode) -> Answer:
        """Return the answer of a node to an order.

        Args:
            sent: The order.
            response: What came back, and when.
            node: What is known of the node.

        Raises:
            Malformed: The reply cannot be used.
            Implausible: The reply answers another order, or a figure in it cannot be true.
        """
        if response.error is not None:
            raise Malformed(response.error)
        received, order = from_content(response.message.content, TrainReply), sent.order
        if received.nonce != sent.nonce or received.round_index != order.round_index:
            raise Implausible("it answers another order")
        work, most = received.work, self.settings.most_samples(streams=True)
        first_batch = max(order.batch_size, node.samples)
        most += most_trial_samples(order, first_batch, self.least_batch)
        reply = self._in_range(received, order)
        check_seconds(work.step_seconds, order.local_steps, work.seconds, response.seconds)
        remembered = max(node.samples, reply.samples) if order.probe else 0  # in its first batch
        check_work(
            work.computed,
            reply.measured_samples,
            order.local_steps,
            order.local_steps * order.batch_size + remembered,
            most_measured=most,
        )
        return Answer(reply, work, max(response.seconds - work.seconds, 0.0))

    def _in_range(self, received: TrainReply, order: Order) -> Reply:
        """Return a reply whose numbers have the right shapes and are in range."""
        try:
            reply = checked_reply(
                received.reply,
                received.work,
                self.like,
                self.trained,
                self.max_samples,
                sketched=order.sketch,
            )
            check_path(reply, self.trained, asked=order.path)
        except Malformed as error:  # no honest node sends that
            raise Implausible(str(error)) from None
        if not order.race:
            reply = replace(reply, race_factor=math.nan)
        return reply
