"""The engine for real devices. Flower carries the messages, and time is real time."""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from dynamite_fl.client.flat_model import Compute, FlatModel
from dynamite_fl.client.messages import ClientState
from dynamite_fl.client.model_outline import outline_of
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.control.estimate.speed import fill_with_median
from dynamite_fl.errors import InvalidInput, TooFewNodes, UserCodeError
from dynamite_fl.flower.answer_reader import KnownNode, Reader
from dynamite_fl.flower.answers import judge
from dynamite_fl.flower.conduct import FILE_NAME, Conduct
from dynamite_fl.flower.failed_rounds import MOST_FAILED_ROUNDS, FailedRounds
from dynamite_fl.flower.messages import TRAIN, TrainOrder, to_content
from dynamite_fl.flower.messenger import Grid, Messenger, Request, Response
from dynamite_fl.flower.plain_text import plain
from dynamite_fl.flower.plausible import Implausible, believed_speeds
from dynamite_fl.flower.roster import Roster
from dynamite_fl.flower.round_outcome import Answer, round_outcome
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.flower.waiting import WaitStatus, wait_for_nodes, wait_status
from dynamite_fl.flower.wire import Malformed
from dynamite_fl.records import Fleet
from dynamite_fl.task.task import Task
from dynamite_fl.training.engine import Evaluation, ModelSize, RoundOrder, RoundOutcome
from dynamite_fl.training.evaluate import evaluate

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class FlowerEngine:
    """An engine whose devices are the nodes of a Flower Grid that run our ClientApp.

    Attributes:
        grid: The Grid.
        task: Model, loss and test data. The training data is on the devices.
        clients: The number of devices that can take part.
        seed: The seed of the first weights.
        names_file: The file for the devices' names, which a resume needs; None to keep none. The
            file of excluded devices, ``excluded.txt``, is beside it.
        registered: The name that belongs to each node's key, by node id; empty without keys.
        timeouts: How long to wait for nodes.
        min_nodes: The number of nodes that a round needs.
        expected_names: The names of nodes that were started, as far as they are known. They say
            which nodes are missing.
        max_samples_per_node: The largest number of samples that a node may claim to hold. Models
            are averaged by samples, so a node that claims more is refused.
        on_wait: Called while the engine waits for nodes, whenever one has come, gone or replied.
        settings: How the devices measure gradient variance and drift.
        optimizer: The optimiser of the devices.
        compute: Where and how precisely the server evaluates the model.
        is_private: Whether the training has differential privacy. The models of nodes are then not
            compared with each other, because nobody's data may decide on another's update.
        states: Always empty, because devices keep their own state.
    """

    grid: Grid
    task: Task
    clients: int
    seed: int = 0
    names_file: Path | None = None
    registered: Mapping[int, str] = field(default_factory=dict)
    timeouts: Timeouts = field(default_factory=Timeouts)
    min_nodes: int = 1
    expected_names: Sequence[str] = ()
    max_samples_per_node: int = 10_000_000
    on_wait: Callable[[WaitStatus], None] | None = None
    settings: ProbeSettings = field(default_factory=ProbeSettings)
    optimizer: Optimizer = field(default_factory=Optimizer)
    compute: Compute = field(default_factory=Compute)
    is_private: bool = False
    states: dict[int, ClientState] = field(default_factory=dict, init=False)
    _last_round_ended: float | None = field(default=None, init=False, repr=False)
    _failed_rounds: FailedRounds = field(default_factory=FailedRounds, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.compute.local_buffers:
            raise InvalidInput(
                'training.buffers = "local" is for simulations: on real machines the server could '
                "not evaluate the model"
            )
        self.model = FlatModel(self.task, self.seed, self.compute)
        self.size = ModelSize.of(self.model, self.optimizer)
        self._messenger = Messenger(self.grid)
        self.roster = Roster(
            self._messenger,
            self.clients,
            self.names_file,
            self.max_samples_per_node,
            self.registered,
            self.expected_names,
            outline_of(self.model.module),
            Conduct(None if self.names_file is None else self.names_file.with_name(FILE_NAME)),
        )
        self._reader = Reader(
            self.model.first_weights,
            self.size.trained,
            self.max_samples_per_node,
            self.settings,
            self.model.least_batch,
        )
        self._samples = np.full(self.clients, np.nan)
        self._batch_sizes: dict[int, int] = {}

    def enroll(self) -> Fleet:
        """Wait for the devices and return the fleet, with the speeds that they report.

        Raises:
            TooFewNodes: Fewer nodes have connected than a round needs.
        """
        wait_for_nodes(self.roster, self.clients, self.timeouts.join_seconds, self.on_wait)
        if len(self.roster.usable) < self.min_nodes:
            raise self._too_few()
        self.roster.fix_order()
        is_connected = np.isin(np.arange(self.clients), list(self.roster.connected))
        speed, comm_seconds = np.ones(self.clients), np.zeros(self.clients)
        for client, node in self.roster.connected.items():
            self._samples[client] = node.introduction.samples
            speed[client] = node.introduction.samples_per_second
            comm_seconds[client] = node.comm_seconds
        speed[is_connected] = believed_speeds(speed[is_connected])
        return Fleet(
            samples=np.ceil(fill_with_median(self._samples, np.isfinite(self._samples))),
            gradient_variance=1.0,
            samples_per_second=fill_with_median(speed, is_connected),
            comm_seconds=fill_with_median(comm_seconds, is_connected),
            least_batch=self.model.least_batch,
            name=self._labels(),
        )

    def first_weights(self) -> Tensor:
        """Return the global model before training, (d,)."""
        return self.model.first_weights.clone()

    def state_dict(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the whole state of the model with these weights, by names."""
        return self.model.state_dict(weights)

    def most_samples(self, order: RoundOrder) -> int:
        """Return the most samples that a round may compute on, measurements included."""
        samples = order.most_samples(self.model.least_batch)
        if order.reuses_batches:
            for client, size in zip(order.cohort, order.plan.batch_sizes, strict=True):
                samples += max(self._batch_sizes.get(int(client), 0) - int(size), 0)
            samples += len(order.cohort) * self.settings.most_samples(streams=True)
        return samples

    def close(self) -> None:
        """Do nothing: the engine has started neither the Grid nor the nodes."""

    def evaluate(self, weights: Tensor, round_index: int) -> Evaluation:  # noqa: ARG002
        """Evaluate a global model on the test data."""
        return evaluate(self.model, weights)

    def run_round(self, order: RoundOrder) -> RoundOutcome:
        """Run a round on the devices of the cohort that are connected.

        The clock of a round starts when the round before it has ended, so its seconds include the
        work of the server between rounds.

        Raises:
            TooFewNodes: Fewer nodes are connected than a round needs, and no others have connected
                in time.
            UserCodeError: The user's code has failed on every node, in several rounds in a row.
        """
        began = time.monotonic() if self._last_round_ended is None else self._last_round_ended
        ends = began + order.seconds_left
        node_ids = self._node_ids(order, ends)
        planned = order.plan.seconds / order.plan.rounds
        if order.rate_trial != "none":  # the plan does not know of trials
            steps = order.plan.local_steps * int(order.plan.batch_sizes.sum())
            planned *= self.most_samples(order) / steps
        timeout = min(self.timeouts.round_seconds(planned), ends - time.monotonic())
        sent = {client: self._order(order, client) for client in node_ids}
        requests = [
            Request(node_ids[client], to_content(message)) for client, message in sent.items()
        ]
        responses = self._messenger.exchange(
            requests,
            TRAIN,
            str(order.round_index),
            max(timeout, 0.0),
            partial(self._show_replies, order.round_index, node_ids),
        )
        answers = self._answers(
            order, sent, {client: responses.get(node_id) for client, node_id in node_ids.items()}
        )
        self._last_round_ended = time.monotonic()
        self._check_failures(order, [responses.get(node_id) for node_id in node_ids.values()])
        outcome = round_outcome(
            order,
            set(node_ids),
            answers,
            seconds=min(self._last_round_ended - began, order.seconds_left),
            max_samples=self.most_samples(order),
            weights=self.model.first_weights,
        )
        self._note_batch_sizes(order, answers)
        return outcome

    def _show_replies(
        self, round_index: int, node_ids: Mapping[int, int], waiting: Collection[int]
    ) -> None:
        """Tell the operator whose replies are still missing."""
        if self.on_wait is None:
            return
        names = {node_id: self.roster.names[client] for client, node_id in node_ids.items()}
        absent = tuple(sorted(names[node_id] for node_id in waiting))
        present = tuple(sorted(set(names.values()) - set(absent)))
        self.on_wait(WaitStatus(len(names), present, absent, round_index))

    def _node_ids(self, order: RoundOrder, ends: float) -> dict[int, int]:
        """Wait until enough clients of the cohort are connected, and return their node ids."""
        self.roster.update()
        needed = min(self.min_nodes, len(order.cohort))
        if len(self._connected(order)) < needed:
            seconds = min(self.timeouts.join_seconds, ends - time.monotonic())
            wait_for_nodes(self.roster, self.min_nodes, seconds, self.on_wait)
            if len(self._connected(order)) < needed and time.monotonic() < ends:
                raise self._too_few()
        return self._connected(order)

    def _connected(self, order: RoundOrder) -> dict[int, int]:
        """Return the node ids of the cohort's connected clients.

        Clients that are left out for a while are not among them, unless too few others are.
        """
        usable, conduct, names = self.roster.usable, self.roster.conduct, self.roster.names
        clients = [int(client) for client in order.cohort if client in usable]
        trusted = [c for c in clients if not conduct.is_left_out(names[c], order.round_index)]
        if len(trusted) < min(self.min_nodes, len(order.cohort)):
            trusted = clients
        return {client: usable[client].node_id for client in trusted}

    def _too_few(self) -> TooFewNodes:
        status = wait_status(self.roster, self.min_nodes)
        reason = self.roster.last_refusal
        refused = f"The last one that was refused: {reason}. " if reason else ""
        for name, why in self.roster.conduct.excluded.items():
            refused += f"{name} is excluded by {FILE_NAME}, {why}. "
        return TooFewNodes(
            f"too few nodes have connected within {self.timeouts.join_seconds:g} s. {status}. "
            f"{refused}Start the missing nodes or look at their logs, then start the training again"
        )

    def _order(self, order: RoundOrder, client: int) -> TrainOrder:
        """Return the message that orders a round from one client."""
        (position,) = np.flatnonzero(order.cohort == client)
        return TrainOrder(
            self.roster.training, secrets.token_hex(16), order.for_client(int(position))
        )

    def _answers(
        self,
        order: RoundOrder,
        sent: Mapping[int, TrainOrder],
        responses: Mapping[int, Response | None],
    ) -> dict[int, Answer]:
        """Return the plausible answers by client; log the others, and note who sent them."""
        nodes = {client: self._known_node(client) for client in sent}
        answers, implausible = {}, {}
        for client, response in responses.items():
            if response is None or not response.is_from_node:
                self.roster.disconnect(
                    client, f"it did not reply to the order of round {order.round_index} in time"
                )
                continue
            try:
                answers[client] = self._reader.read(sent[client], response, nodes[client])
            except Implausible as error:
                implausible[client] = str(error)
            except Malformed as error:
                _log.warning(
                    "%s is absent in round %d, because its reply cannot be used: %s.",
                    self.roster.names[client],
                    order.round_index,
                    plain(str(error)),
                )
        answers, beside_others = judge(
            order, answers, nodes, self.size.trained, is_private=self.is_private
        )
        for client, reason in (implausible | beside_others).items():
            self.roster.conduct.offend(self.roster.names[client], order.round_index, reason)
        for client, answer in answers.items():
            self._samples[client] = answer.reply.samples
            self.roster.conduct.praise(self.roster.names[client])
        return answers

    def _known_node(self, client: int) -> KnownNode:
        """Return what is known of a connected client's node."""
        introduction = self.roster.connected[client].introduction
        samples = introduction.samples
        if introduction.streams and self._samples[client] > samples:
            samples = int(self._samples[client])
        return KnownNode(samples, introduction.streams)

    def _check_failures(self, order: RoundOrder, responses: list[Response | None]) -> None:
        """End a training in which the user's code fails on every node, round after round."""
        errors = [response.error or "" for response in responses if response is not None]
        failures = [error for error in errors if UserCodeError.__name__ in error]
        has_failed = bool(failures) and len(failures) == len(responses)
        if self._failed_rounds.are_too_many(has_failed=has_failed):
            reason = failures[0].partition(f"{UserCodeError.__name__}: ")[2]
            raise UserCodeError(
                f"your code failed on every node in {MOST_FAILED_ROUNDS} rounds in a row, in "
                f"round {order.round_index} with: {reason}"
            )

    def _note_batch_sizes(self, order: RoundOrder, answers: dict[int, Answer]) -> None:
        """Keep the batch sizes of a round, because the next probe begins with the same batches."""
        for client, size in zip(order.cohort, order.plan.batch_sizes, strict=True):
            if int(client) in answers:
                self._batch_sizes[int(client)] = int(size)

    def _labels(self) -> list[str]:
        """Return a name for every client. Clients that have not connected yet are numbered."""
        names = self.roster.names
        return [
            *names,
            *(f"unconnected {client + 1}" for client in range(len(names), self.clients)),
        ]
