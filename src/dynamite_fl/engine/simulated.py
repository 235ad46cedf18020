"""Devices simulated on one machine, in virtual time; what they compute is real."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import numpy as np
from torch import Tensor

from dynamite_fl.client.client import (
    Client,
    ClientState,
    Order,
    ProbeSettings,
    Receive,
    Reply,
    compared_with,
)
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.client.stacked import can_be_stacked, play_stacked
from dynamite_fl.engine.collect import collect
from dynamite_fl.engine.devices import Devices, nominal_fleet
from dynamite_fl.engine.engine import Evaluation, RoundOrder, RoundOutcome
from dynamite_fl.engine.evaluate import arrived_sample, evaluate
from dynamite_fl.engine.pool import Crew, Pool, is_stub
from dynamite_fl.engine.timing import Timing, round_timing
from dynamite_fl.engine.traffic import traffic
from dynamite_fl.plan.problem import BoolArray
from dynamite_fl.records import Fleet, FloatArray, IntArray
from dynamite_fl.reports import RoundReport
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.task import Task


@dataclass(eq=False)
class SimulatedEngine:
    """An engine whose devices exist as records only.

    Attributes:
        task: What is learned.
        partition: Which samples each client has.
        devices: How fast they are.
        learning_rate: eta.
        seed: Of all that is drawn.
        settings: How M_i and drift are measured.
        streams: When a client's samples reach it and what it keeps of them; None if it has
            them all from the start.
        workers: How many processes compute for the clients; with 1, it is done right here.
            Their number changes no result, if torch has one thread here as it has there. Small
            models of linear layers are always computed here: for all clients at once, which
            is faster.
        crew: Who computes for the clients in place of this process and its workers; every client
            by itself then, those of small models too, which rounds differently.
    """

    task: Task
    partition: Partition
    devices: Devices
    learning_rate: float
    seed: int = 0
    settings: ProbeSettings = field(default_factory=ProbeSettings)
    streams: Streams | None = None
    workers: int = 1
    crew: Crew | None = None
    _states: dict[int, ClientState] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.partition) != len(self.devices):
            raise ValueError(
                f"the data is split among {len(self.partition)} clients, but there are "
                f"{len(self.devices)} devices"
            )
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}: it must be 1 or more")
        self.model = FlatModel(self.task, self.seed)
        self._stacked = can_be_stacked(self.model, self.task.train_inputs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, if there are any, and forget what clients carry with them."""
        if self.crew is not None:
            self.crew.close()

    @property
    def states(self) -> dict[int, ClientState]:
        """What clients carry from round to round, by their places in the fleet.

        Workers hand over what they have; it goes back to them with the next orders.
        """
        if self.crew is not None:
            for client, state in self.crew.take_states().items():
                known = self._states.get(client)
                if known is not None and is_stub(known):
                    self._states[client] = state
        return self._states

    @states.setter
    def states(self, states: dict[int, ClientState]) -> None:
        self._states = states

    def enroll(self) -> Fleet:
        """The fleet with its nominal speeds; how its gradients vary is not known yet.

        A client whose first sample is still to come counts as if it had one.
        """
        everyone = np.arange(len(self.devices))
        return nominal_fleet(
            self.devices,
            samples=np.maximum(self._seen(everyone, 1), 1),
            gradient_variance=1.0,
            round_bytes=self._model_bytes,
            buffer_size=None if self.streams is None else self.streams.storage.size,
        )

    def first_weights(self) -> Tensor:
        """The global model before training, (d,)."""
        return self.model.first_weights.clone()

    def named(self, weights: Tensor) -> dict[str, Tensor]:
        """The weights by their names and in their shapes."""
        return self.model.named(weights)

    def samples_of(self, order: RoundOrder) -> int:
        """The most samples that a round may compute on, measuring M_i anew included."""
        sizes = order.plan.batch_sizes
        samples = order.plan.local_steps * int(sizes.sum())
        if order.probe:
            samples += int(self._surplus(order).sum())
            each = self.settings.variance_samples
            each += 0 if self.streams is None else self.settings.drift_samples
            samples += len(order.cohort) * each
        return samples

    def evaluate(self, weights: Tensor, round_index: int) -> Evaluation:
        """Accuracy and loss on the test data, and the loss on what has arrived so far."""
        rows = None
        if self.streams is not None:
            rows = arrived_sample(self.streams, len(self.devices), self.seed, round_index)
        return evaluate(self.model, weights, rows)

    def play(self, order: RoundOrder) -> RoundOutcome:
        """Play a round on the virtual clock."""
        surplus = self._surplus(order) if order.probe else np.zeros(order.cohort.size)
        timing = self._timing(order, surplus)
        there = timing.present
        replies = self._replies(order, there)
        measured = np.array([reply.measured_samples if reply else 0 for reply in replies])
        extra = surplus + measured
        if measured.any():
            timing = self._timing(order, extra)
        present = there & (timing.seconds <= order.seconds_left)
        kept = [reply if here else None for reply, here in zip(replies, present, strict=True)]
        self._keep(order, kept)
        planned = order.plan.local_steps * order.plan.batch_sizes + extra
        return RoundOutcome(
            report=self._report(order, kept, timing, present),
            updates=[reply.weights for reply in kept if reply is not None],
            paths=[reply.path for reply in kept if reply is not None and reply.path is not None],
            seconds=self._round_seconds(order, timing),
            samples=math.ceil((timing.done * planned).sum()),
            sent_bytes=int((timing.done > 0).sum() * self._bytes(order)),
        )

    @property
    def _model_bytes(self) -> float:
        """A model's way to the client and back."""
        return 2.0 * self.model.first_weights.numel() * self.model.first_weights.element_size()

    def _bytes(self, order: RoundOrder) -> float:
        return self._model_bytes * traffic(order)

    def _surplus(self, order: RoundOrder) -> FloatArray:
        """By how many samples the first batch of a probe, the last one's, is larger."""
        states = [self._states.get(int(client), ClientState()) for client in order.cohort]
        steps = order.plan.local_steps
        memories = [compared_with(each, probe=order.probe, local_steps=steps) for each in states]
        return np.array(
            [
                0.0 if memory is None else float(memory.batch.size - size)
                for memory, size in zip(memories, order.plan.batch_sizes, strict=True)
            ]
        )

    def _seen(self, clients: IntArray, round_index: int) -> IntArray:
        """D_i^k."""
        if self.streams is None:
            return np.asarray(self.partition.sizes[clients])
        return self.streams.seen(clients, round_index)

    def _timing(self, order: RoundOrder, extra_samples: FloatArray) -> Timing:
        """The times of the cohort; whoever has no sample yet is away."""
        timing = round_timing(
            self.devices,
            order.cohort,
            seed=self.seed,
            round_index=order.round_index,
            start=order.begins,
            local_steps=order.plan.local_steps,
            batch_sizes=order.plan.batch_sizes,
            round_bytes=self._bytes(order),
            extra_samples=extra_samples,
        )
        has_data = self._seen(order.cohort, order.round_index) > 0
        return timing if has_data.all() else timing.only(has_data)

    def _round_seconds(self, order: RoundOrder, timing: Timing) -> float:
        """Until the last is done or the deadline comes; if nobody is there, as long as planned."""
        if not timing.done.any():
            return min(order.plan.seconds / order.plan.rounds, order.seconds_left)
        return min(float(timing.seconds.max()), order.seconds_left)

    def _replies(self, order: RoundOrder, there: BoolArray) -> list[Reply | None]:
        """What each of the cohort computes; None for those who do not get through."""
        orders = [
            Order(
                client=int(client),
                round_index=order.round_index,
                weights=order.weights,
                local_steps=order.plan.local_steps,
                batch_size=int(size),
                learning_rate=self.learning_rate,
                probe=order.probe,
                remember=order.remember,
                path=order.path,
                sketch=order.sketch,
            )
            for client, size in zip(order.cohort[there], order.plan.batch_sizes[there], strict=True)
        ]
        replies = iter(self._compute(orders))
        return [next(replies) if here else None for here in there]

    def _compute(self, orders: Sequence[Order]) -> Sequence[Reply]:
        """All clients at once, in worker processes, or one after the other."""
        states = [self._states.get(order.client, ClientState()) for order in orders]
        if self.crew is None and self._stacked:
            return play_stacked([self.client(order.client) for order in orders], orders, states)
        if self.crew is None and self.workers > 1:
            self.crew = Pool(self.workers, self.client)
        if self.crew is not None:
            return self.crew.play(orders, states)
        return [
            self.client(order.client).play(order, state)
            for order, state in zip(orders, states, strict=True)
        ]

    def _keep(self, order: RoundOrder, replies: Sequence[Reply | None]) -> None:
        """Let those who got through carry on from here."""
        kept = {
            int(client): reply.state
            for client, reply in zip(order.cohort, replies, strict=True)
            if reply is not None
        }
        self._states.update(kept)
        if self.crew is not None:
            self.crew.keep(kept)

    def client(self, client: int) -> Client:
        """The client at a place, with its data."""
        return Client(
            model=self.model,
            inputs=self.task.train_inputs,
            targets=self.task.train_targets,
            indices=self.partition.indices(client),
            seed=self.seed,
            settings=self.settings,
            receive=self._receive(client),
        )

    def _receive(self, client: int) -> Receive | None:
        """What has arrived at a client; rows of the data stay where they are, needed or not."""
        if self.streams is None:
            return None
        receive = partial(self.streams.receive, client)
        return lambda round_index, buffer, _: receive(round_index, buffer)

    def _report(
        self,
        order: RoundOrder,
        replies: Sequence[Reply | None],
        timing: Timing,
        present: BoolArray,
    ) -> RoundReport:
        samples = np.array([math.nan if reply is None else reply.samples for reply in replies])
        return RoundReport(
            round_index=order.round_index,
            clients=order.cohort,
            local_steps=order.plan.local_steps,
            batch_sizes=order.plan.batch_sizes,
            present=present,
            samples=samples,
            step_seconds=np.where(present, timing.step_seconds, np.nan),
            comm_seconds=np.where(present, timing.comm_seconds, np.nan),
            probe=collect(replies, samples) if order.probe else None,
        )
