"""What the replies of a user's own train function show, as a report for the controller."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from dynamite_fl.client.step_path import MEASURED_GRADIENTS, steps_in_first_half
from dynamite_fl.flower.messenger import Response
from dynamite_fl.flower.step_meter import MEASUREMENTS, Measurements, read_measurements
from dynamite_fl.flower.wire import Malformed
from dynamite_fl.reports import PathReport, RoundReport

_MOST_SAMPLES = 1e12


@dataclass(frozen=True)
class Asked:
    """What the nodes of a round were asked for.

    Attributes:
        round_index: The number of the round, from 1; 0 for the trial before the first round.
        local_steps: The local steps of every node.
        batch_sizes: The batch size of every client of the cohort, in its order.
        learning_rate: The learning rate.
    """

    round_index: int
    local_steps: int
    batch_sizes: Mapping[int, int]
    learning_rate: float


@dataclass(frozen=True, eq=False)
class Answer:
    """The usable reply of one node.

    Attributes:
        message: The reply, without our measurements, as the user's strategy expects it.
        arrays: The local model.
        samples: The number of samples that the node says it has.
        total_seconds: Seconds from the order to the reply.
        measured: What a ``StepMeter`` measured; None without one.
    """

    message: Message
    arrays: ArrayRecord
    samples: float
    total_seconds: float
    measured: Measurements | None

    def step_seconds(self, local_steps: int) -> float:
        """Return the seconds of one local step; without a meter, its share of the whole time."""
        if self.measured is None:
            return self.total_seconds / local_steps
        return self.measured.step_seconds

    @property
    def comm_seconds(self) -> float:
        """The seconds outside the local steps; 0 if they were not measured apart."""
        if self.measured is None:
            return 0.0
        return max(self.total_seconds - self.measured.seconds, 0.0)


def read_answer(response: Response, weighted_by_key: str, *, needs_meter: bool) -> Answer:
    """Return what a node has replied.

    Args:
        response: The reply. Our measurements are taken out of it.
        weighted_by_key: The metric that holds the node's number of samples.
        needs_meter: Whether the reply must have the record of a ``StepMeter``.

    Raises:
        Malformed: The reply lacks something, or something in it cannot be used.
    """
    content: RecordDict = response.message.content
    arrays = next(iter(content.array_records.values()), None)
    if arrays is None:
        raise Malformed("the reply has no ArrayRecord")
    metrics = next(iter(content.metric_records.values()), MetricRecord())
    samples = metrics.get(weighted_by_key)
    if not isinstance(samples, int | float) or not 1 <= samples <= _MOST_SAMPLES:
        raise Malformed(f"the reply's metrics have no positive number {weighted_by_key!r}")
    measured = None
    if isinstance(record := content.get(MEASUREMENTS), ConfigRecord):
        measured = read_measurements(record)
        del content[MEASUREMENTS]
    elif needs_meter:
        raise Malformed(
            "the reply has no measurements, which this controller needs: add a StepMeter to the "
            'train function, or choose a controller that needs none, such as "no-straggler"'
        )
    return Answer(response.message, arrays, float(samples), response.seconds, measured)


def app_report(asked: Asked, answers: Mapping[int, Answer]) -> RoundReport:
    """Return the report of a round."""
    clients = list(asked.batch_sizes)
    by_cohort = [answers.get(client) for client in clients]
    steps = asked.local_steps
    return RoundReport(
        round_index=asked.round_index,
        clients=np.array(clients),
        local_steps=steps,
        learning_rate=asked.learning_rate,
        batch_sizes=np.array(list(asked.batch_sizes.values())),
        present=np.array([answer is not None for answer in by_cohort]),
        samples=np.array([a.samples if a else np.nan for a in by_cohort]),
        step_seconds=np.array([a.step_seconds(steps) if a else np.nan for a in by_cohort]),
        comm_seconds=np.array([a.comm_seconds if a else np.nan for a in by_cohort]),
        probe=None,
        path=_mean_path(asked, answers),
    )


def _mean_path(asked: Asked, answers: Mapping[int, Answer]) -> PathReport | None:
    """Return the mean movement of the local steps; None if no node or not every node measured it.

    Every node sends a sketch of its whole movement beside that of the first half, because the
    server does not know which of the numbers that it averages are trained weights.
    """
    measured = [answer.measured for answer in answers.values() if answer.measured is not None]
    lengths = {len(measurements.movement) for measurements in measured}
    if not measured or len(measured) < len(answers) or len(lengths) != 1:
        return None
    samples = torch.tensor([answer.samples for answer in answers.values()], dtype=torch.float64)
    shares = samples / samples.sum()
    first_steps = steps_in_first_half(asked.local_steps)
    second_steps = asked.local_steps - first_steps
    first_movement = shares @ torch.stack([m.first_half for m in measured])
    movement = shares @ torch.stack([m.movement for m in measured])
    gradient = shares @ torch.stack([m.gradient_sum for m in measured]) / first_steps
    first_half = first_movement / first_steps
    second_half = (movement - first_movement) / second_steps if second_steps else first_half
    return PathReport(
        first_half=first_half.numpy(),
        second_half=second_half.numpy(),
        gradient_variance=np.array(
            [_variance(asked, client, answers.get(client)) for client in asked.batch_sizes]
        ),
        gradient=gradient.numpy(),
    )


def _variance(asked: Asked, client: int, answer: Answer | None) -> float:
    """Return M_i; NaN if it is unknown.

    Batches that use up all samples of a node differ less from each other than random ones do.
    """
    if answer is None or answer.measured is None:
        return float("nan")
    used = min(MEASURED_GRADIENTS, asked.local_steps) * asked.batch_sizes[client]
    return answer.measured.gradient_variance if used <= answer.samples else float("nan")
