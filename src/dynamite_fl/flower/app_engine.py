"""The engine for a Flower app of the user's own: its nodes run the user's train function.

The user's strategy makes the messages and aggregates the replies. This engine adds what a round is
asked for to each message, waits for the replies, and reports to the controller what they show.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import Result, Strategy
from torch import Tensor

from dynamite_fl.control.estimate.speed import fill_with_median
from dynamite_fl.errors import InvalidInput, TooFewNodes, UserCodeError
from dynamite_fl.flower.app_nodes import AppNodes, least_nodes, setting_of
from dynamite_fl.flower.app_replies import Answer, Asked, app_report, read_answer
from dynamite_fl.flower.failed_rounds import MOST_FAILED_ROUNDS, FailedRounds
from dynamite_fl.flower.messenger import Grid, Messenger, Request, Response
from dynamite_fl.flower.step_meter import BATCH_SIZE, LEARNING_RATE, LOCAL_STEPS
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.flower.wire import Malformed
from dynamite_fl.records import Fleet
from dynamite_fl.training.engine import Evaluation, ModelSize, RoundOrder, RoundOutcome

_log = logging.getLogger(__name__)
_TRIAL_STEPS, _TRIAL_BATCH = 2, 32
_GUESSED_SPEED = 1000.0  # samples per second, if only the whole time of a node is known
_SKETCHES = 3  # in the record of a ``StepMeter``

EvaluateFunction = Callable[[int, ArrayRecord], MetricRecord | None]


@dataclass(eq=False)
class AppEngine:
    """Runs rounds of a Flower app.

    Attributes:
        grid: The Grid.
        strategy: The user's strategy.
        arrays: The global model.
        clients: The most nodes that take part; None for those that are connected at first.
        needs_meter: Whether the train function must have a ``StepMeter``.
        train_config: The user's config that goes with every order to train.
        evaluate_config: The user's config that goes with every order to evaluate.
        evaluate_fn: The user's evaluation at the server; None if there is none.
        timeouts: How long to wait for nodes.
        most_seconds: The longest wait for the replies of a round.
        result: Flower's record of the training.
    """

    grid: Grid
    strategy: Strategy
    arrays: ArrayRecord
    clients: int | None
    needs_meter: bool
    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    evaluate_fn: EvaluateFunction | None
    timeouts: Timeouts
    most_seconds: float
    result: Result = field(default_factory=Result)
    _timed: set[int] = field(default_factory=set, init=False)  # node ids that have replied
    _trial_samples: int = field(default=0, init=False)
    _last_round_ended: float | None = field(default=None, init=False)
    _failed_rounds: FailedRounds = field(default_factory=FailedRounds, init=False)
    _usable: list[Message] = field(default_factory=list, init=False)
    _round: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._messenger = Messenger(self.grid)
        self._keys = list(self.arrays)
        numbers = self.vector(self.arrays).numel()
        self.size = ModelSize(numbers, numbers, _SKETCHES)
        self._nodes = AppNodes(self.grid, least_nodes(self.strategy), self.clients)

    def enroll(self, learning_rate: float) -> Fleet:
        """Wait for nodes, and let each of them make two steps that show how fast it is.

        Their result is not used, but their seconds and samples are charged to the first round.

        Raises:
            TooFewNodes: Too few nodes have connected in time.
            InvalidInput: The replies lack something that the training needs.
            UserCodeError: The user's train function has failed on every node.
        """
        self._last_round_ended = time.monotonic()
        nodes = self._nodes.enroll(self.timeouts.join_seconds)
        asked = Asked(0, _TRIAL_STEPS, dict.fromkeys(nodes, _TRIAL_BATCH), learning_rate)
        answers, _ = self._train(asked, nodes, self.most_seconds)
        if not answers:
            raise TooFewNodes(
                "no node has replied to the first message: look at the logs of the nodes"
            )
        self._trial_samples = len(nodes) * _TRIAL_STEPS * _TRIAL_BATCH
        return self._fleet(answers)

    def first_weights(self) -> Tensor:
        """Return the global model as a vector, (d,)."""
        return self.vector(self.arrays)

    def most_samples(self, order: RoundOrder) -> int:
        """Return the most samples that a round may compute on."""
        return order.plan.local_steps * int(order.plan.batch_sizes.sum()) + self._trial_samples

    def run_round(self, order: RoundOrder) -> RoundOutcome:
        """Let the nodes of the cohort train by the user's function.

        Raises:
            TooFewNodes: Fewer nodes are connected than the strategy needs, and no others have
                connected in time.
            UserCodeError: The user's train function has failed on every node, in several rounds in
                a row.
        """
        assert self._last_round_ended is not None  # noqa: S101  enroll() comes first
        began, self._round = self._last_round_ended, order.round_index
        ends = began + order.seconds_left
        sizes = dict(zip(order.cohort.tolist(), order.plan.batch_sizes.tolist(), strict=True))
        asked = Asked(order.round_index, order.plan.local_steps, sizes, order.learning_rate)
        nodes = self._nodes.of_cohort(list(sizes), self.timeouts.join_seconds, ends)
        timeout = max(min(self._timeout(order, nodes), ends - time.monotonic()), 0.0)
        answers, replies = self._train(asked, nodes, timeout) if nodes else ({}, [])
        self._note_failures(replies, len(nodes))
        like = self.vector(self.arrays)
        updates = {client: self.vector(answer.arrays) for client, answer in answers.items()}
        self._usable = [
            answers[client].message
            for client, update in updates.items()
            if update.shape == like.shape and bool(torch.isfinite(update).all())
        ]
        self._last_round_ended = time.monotonic()
        samples = asked.local_steps * sum(sizes[client] for client in nodes) + self._trial_samples
        self._trial_samples = 0
        return RoundOutcome(
            report=app_report(asked, answers),
            updates=[updates[client] for client in sizes if client in updates],
            paths=[],  # the report has their mean already
            seconds=min(self._last_round_ended - began, order.seconds_left),
            samples=samples,
            sent_bytes=4 * like.numel() * (len(nodes) + len(answers)),
        )

    def aggregate(self) -> Tensor:
        """Let the user's strategy aggregate the usable replies, and return the new model, (d,)."""
        arrays, metrics = self.strategy.aggregate_train(self._round, self._usable)
        if metrics is not None:
            self.result.train_metrics_clientapp[self._round] = metrics
        if arrays is not None:
            self.arrays = self.result.arrays = arrays
        return self.vector(self.arrays)

    def evaluate(self, weights: Tensor, round_index: int) -> Evaluation:  # noqa: ARG002
        """Evaluate the global model on nodes and at the server, as the user's strategy says."""
        numbers: dict[str, float] = {}
        if metrics := self._evaluate_on_nodes(round_index):
            self.result.evaluate_metrics_clientapp[round_index] = metrics
            numbers |= _numbers(metrics)
        if self.evaluate_fn is not None and (found := self.evaluate_fn(round_index, self.arrays)):
            self.result.evaluate_metrics_serverapp[round_index] = found
            numbers |= _numbers(found)
        return Evaluation(loss=numbers.pop("loss", float("nan")), metrics=numbers)

    def vector(self, arrays: ArrayRecord) -> Tensor:
        """Return all numbers of a model, (d,), or none if its arrays have other names."""
        if list(arrays) != self._keys and set(arrays) != set(self._keys):
            return torch.empty(0)
        parts = [np.ravel(arrays[key].numpy()).astype(np.float32) for key in self._keys]
        return torch.from_numpy(np.concatenate(parts))

    def _train(
        self, asked: Asked, nodes: dict[int, int], timeout: float
    ) -> tuple[dict[int, Answer], list[Response]]:
        """Send orders to nodes, and return the usable answers by client, and all responses."""
        clients = {node: client for client, node in nodes.items()}
        config = ConfigRecord(dict(self.train_config))
        view = cast(Any, _Nodes(list(nodes.values())))
        messages = list(self.strategy.configure_train(asked.round_index, self.arrays, config, view))
        requests = [
            Request(node, _ordered(message.content, asked, clients[node]))
            for message in messages
            if (node := message.metadata.dst_node_id) in clients
        ]
        kind = messages[0].metadata.message_type if messages else "train"
        group = str(asked.round_index)
        responses = self._messenger.exchange(requests, kind, group, timeout)
        self._timed |= {node for node, response in responses.items() if response.error is None}
        answers = {
            clients[node]: answer
            for node, response in responses.items()
            if (answer := self._answer(asked, node, response)) is not None
        }
        if asked.round_index == 0:
            self._check_trial(list(responses.values()), answers)
        return {client: answers[client] for client in sorted(answers)}, list(responses.values())

    def _answer(self, asked: Asked, node: int, response: Response) -> Answer | None:
        """Return what a node has replied; None if it cannot be used, with the reason logged."""
        try:
            if response.error is not None:
                raise Malformed(response.error)
            weight = str(setting_of(self.strategy, "weighted_by_key", "num-examples"))
            return read_answer(response, weight, needs_meter=self.needs_meter)
        except Malformed as error:
            _log.warning("Node %d is absent in round %d: %s.", node, asked.round_index, error)
            return None

    def _check_trial(self, responses: Sequence[Response], answers: dict[int, Answer]) -> None:
        """Refuse a train function that cannot take part, with what it lacks."""
        if answers or not responses:
            return
        if responses[0].error is not None:
            raise UserCodeError(f"the train function fails on every node: {responses[0].error}")
        weight = str(setting_of(self.strategy, "weighted_by_key", "num-examples"))
        try:
            read_answer(responses[0], weight, needs_meter=self.needs_meter)
        except Malformed as error:
            raise InvalidInput(f"no reply of a node can be used: {error}") from None

    def _fleet(self, answers: dict[int, Answer]) -> Fleet:
        """Return the nodes with the speeds that the first two steps have shown."""
        clients = self._nodes.capacity
        known = np.isin(np.arange(clients), list(answers))
        samples, speed = np.ones(clients), np.full(clients, _GUESSED_SPEED)
        overhead, comm_seconds = np.zeros(clients), np.zeros(clients)
        for client, answer in answers.items():
            samples[client] = answer.samples
            comm_seconds[client] = answer.comm_seconds
            if answer.measured is not None:
                speed[client] = _TRIAL_BATCH / max(answer.step_seconds(_TRIAL_STEPS), 1e-9)
            else:
                overhead[client] = answer.step_seconds(_TRIAL_STEPS)
        return Fleet(
            samples=np.ceil(fill_with_median(samples, known)),
            gradient_variance=1.0,
            samples_per_second=fill_with_median(speed, known),
            comm_seconds=fill_with_median(comm_seconds, known),
            step_overhead=fill_with_median(overhead, known),
        )

    def _timeout(self, order: RoundOrder, nodes: dict[int, int]) -> float:
        """Return how long to wait for replies; as long as allowed if a node was never timed."""
        if order.round_index == 1 or not set(nodes.values()) <= self._timed:
            return self.most_seconds
        planned = order.plan.seconds / order.plan.rounds
        return min(self.timeouts.round_seconds(planned), self.most_seconds)

    def _note_failures(self, responses: Sequence[Response], asked: int) -> None:
        """End a training in which the user's code fails on every node, round after round."""
        errors = [response.error for response in responses if response.error is not None]
        has_failed = bool(errors) and len(errors) == asked
        if self._failed_rounds.are_too_many(has_failed=has_failed):
            raise UserCodeError(
                f"the train function failed on every node in {MOST_FAILED_ROUNDS} rounds in a "
                f"row: {errors[0]}"
            )

    def _evaluate_on_nodes(self, round_index: int) -> MetricRecord | None:
        self._nodes.update()
        nodes = list(self._nodes.connected.values())
        if len(nodes) < least_nodes(self.strategy, "min_evaluate_nodes"):
            return None
        config, view = ConfigRecord(dict(self.evaluate_config)), cast(Any, _Nodes(nodes))
        strategy, arrays = self.strategy, self.arrays
        messages = list(strategy.configure_evaluate(round_index, arrays, config, view))
        if not messages:
            return None
        kind, group = messages[0].metadata.message_type, str(round_index)
        requests = [Request(m.metadata.dst_node_id, m.content) for m in messages]
        responses = self._messenger.exchange(requests, kind, group, self.most_seconds)
        replies = [responses[node].message for node in sorted(responses)]
        return strategy.aggregate_evaluate(round_index, replies)


@dataclass(frozen=True)
class _Nodes:
    """A stand-in for a Grid that offers a strategy only the nodes that we have chosen."""

    node_ids: Sequence[int]

    def get_node_ids(self) -> Iterable[int]:
        return self.node_ids


def _ordered(content: RecordDict, asked: Asked, client: int) -> RecordDict:
    """Return the content of a message with the local steps, batch size and rate of one node."""
    name = next(iter(content.config_records), "config")
    config: dict[str, Any] = dict(content.config_records.get(name, {}))
    config |= {
        LOCAL_STEPS: asked.local_steps,
        BATCH_SIZE: asked.batch_sizes[client],
        LEARNING_RATE: asked.learning_rate,
    }
    return RecordDict({**content, name: ConfigRecord(config)})


def _numbers(metrics: MetricRecord) -> dict[str, float]:
    """Return the metrics that are single numbers."""
    return {name: float(value) for name, value in metrics.items() if not isinstance(value, list)}
