"""The engine of simulated devices. They compute for real, but time is virtual (``clock.py``)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from torch import Tensor

from dynamite_fl.client.client import Client
from dynamite_fl.client.executors.executor import Executor, InProcess
from dynamite_fl.client.executors.one_by_one import run_one_by_one
from dynamite_fl.client.executors.stacked import can_be_stacked, run_stacked
from dynamite_fl.client.flat_model import Compute, FlatModel
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.partitioned import PartitionedClients
from dynamite_fl.client.private_update import NodePrivacy
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import BoolArray, Fleet, FloatArray, IntArray
from dynamite_fl.simulation.clock import Timing, round_timing
from dynamite_fl.simulation.devices import Devices, nominal_fleet
from dynamite_fl.simulation.placeholder import is_placeholder
from dynamite_fl.simulation.reused_batches import reused_batches
from dynamite_fl.simulation.round_outcome import round_outcome
from dynamite_fl.simulation.workers import WorkerProcesses
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.samples import JoinedSamples
from dynamite_fl.task.task import Task
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.engine import Evaluation, ModelSize, RoundOrder, RoundOutcome
from dynamite_fl.training.evaluate import arrived_sample, evaluate
from dynamite_fl.training.traffic import traffic


@dataclass(eq=False)
class SimulatedEngine:
    """An engine that simulates its devices.

    Attributes:
        task: The model, the loss and the data.
        partition: The samples of each client.
        devices: The speed and reliability of each device.
        seed: The seed of everything that is drawn.
        settings: The settings of probes.
        optimizer: What clients do with gradients.
        compute: Where and how precisely the model is computed.
        streams: When each client's samples arrive and which ones it stores; None if clients have
            all their samples from the start.
        privacy: How clients clip their updates and add noise; None if they do neither.
        workers: The number of processes that compute the clients' rounds; with 1, this process
            does. The number changes no result, provided that torch uses one thread here, as it
            does in the workers. Small models of linear layers are always computed in this
            process, many clients at once, which is faster.
        executor: Executes the clients' rounds. Default: chosen by the model and ``workers`` when
            the first round begins. Executors that compute clients one by one have other rounding
            errors than the one that computes many clients at once.
    """

    task: Task
    partition: Partition
    devices: Devices
    seed: int = 0
    settings: ProbeSettings = field(default_factory=ProbeSettings)
    optimizer: Optimizer = field(default_factory=Optimizer)
    compute: Compute = field(default_factory=Compute)
    streams: Streams | None = None
    privacy: NodePrivacy | None = None
    workers: int = 1
    executor: Executor | None = None
    _states: dict[int, ClientState] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.partition) != len(self.devices):
            raise InvalidInput(
                f"the data is split among {len(self.partition)} clients, but there are "
                f"{len(self.devices)} devices"
            )
        if self.compute.local_buffers and not isinstance(self.task.test, JoinedSamples):
            raise InvalidInput(
                'training.buffers = "local" gives every device a model of its own: give a list '
                "Task.test_data with test data for each device"
            )
        if self.workers < 1:
            raise InvalidInput(f"workers is {self.workers}: it must be 1 or more")
        self.model = FlatModel(self.task, self.seed, self.compute)
        if self.workers > 1 and self.model.device.type != "cpu":
            raise InvalidInput(
                f"workers is {self.workers}, but models are computed on {self.model.device.type}, "
                "which processes cannot share: use 1 worker"
            )
        self.size = ModelSize.of(self.model, self.optimizer)
        self.clients = PartitionedClients(
            self.model,
            self.partition,
            self.seed,
            self.settings,
            self.streams,
            self.optimizer,
            self.privacy,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything that the executor has started."""
        if self.executor is not None:
            self.executor.close()

    @property
    def states(self) -> dict[int, ClientState]:
        """The states of clients, by their places in the fleet.

        Worker processes keep states to themselves, and ``_states`` then holds placeholders. Here
        the placeholders are replaced by the states. The workers get them back with the next orders.
        """
        away = {client for client, state in self._states.items() if is_placeholder(state)}
        if self.executor is not None and away:
            taken = self.executor.take_states()
            self._states.update({client: taken[client] for client in taken.keys() & away})
        return self._states

    @states.setter
    def states(self, states: dict[int, ClientState]) -> None:
        self._states = states

    def enroll(self) -> Fleet:
        """Return the fleet with the devices' nominal speeds.

        The gradient variance is not known yet and is set to 1. A client that has no sample yet
        counts as if it had one.
        """
        everyone = np.arange(len(self.devices))
        return nominal_fleet(
            self.devices,
            samples=np.maximum(self._seen(everyone, 1), 1),
            gradient_variance=1.0,
            round_bytes=self._model_bytes,
            buffer_size=None if self.streams is None else self.streams.storage.size,
            least_batch=self.model.least_batch,
        )

    def first_weights(self) -> Tensor:
        """Return the global model before training, (d,)."""
        return self.model.first_weights.clone()

    def state_dict(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the whole state of the model with these weights, by names.

        Buffers that clients keep to themselves are averaged by samples, so that the model can be
        used on a new device.
        """
        return self.model.state_dict(weights, self._mean_local_buffers())

    def most_samples(self, order: RoundOrder) -> int:
        """Return the largest number of samples that a round can compute on, probes included."""
        samples = order.most_samples(self.model.least_batch)
        if order.probe and not order.free_probes:
            samples += int(reused_batches(order, self._states).surplus.sum())
            streams = self.streams is not None
            samples += len(order.cohort) * self.settings.most_samples(streams=streams)
        return samples

    def evaluate(self, weights: Tensor, round_index: int) -> Evaluation:
        """Evaluate a global model on the test data and on the samples that have arrived so far."""
        rows = None
        if self.streams is not None:
            rows = arrived_sample(self.streams, len(self.devices), self.seed, round_index)
        return evaluate(self.model, weights, rows, self._local_buffers())

    def _local_buffers(self) -> list[Tensor | None] | None:
        """Return the buffers that each client keeps to itself; None if clients keep none."""
        if not self.compute.local_buffers:
            return None
        states = self.states
        everyone = range(len(self.devices))
        return [states.get(client, ClientState()).local_buffers for client in everyone]

    def _mean_local_buffers(self) -> Tensor | None:
        """Return the mean of the buffers that clients keep; None before they have trained."""
        kept = {
            client: buffers
            for client, buffers in enumerate(self._local_buffers() or ())
            if buffers is not None
        }
        if not kept:
            return None
        samples = [self.partition.indices(client).size for client in kept]
        return average(list(kept.values()), np.array(samples, dtype=np.float64))

    def run_round(self, order: RoundOrder) -> RoundOutcome:
        """Run a round of the cohort on the virtual clock."""
        # 1. The clients that do not drop out compute, even if they turn out to be late.
        reuse = reused_batches(order, self._states)
        sent_bytes = self._model_bytes * traffic(order, self.size, reuse.happens)
        timing = self._timing(order, sent_bytes, reuse.surplus)
        finished = timing.present
        replies = self._replies(order, finished)
        # 2. Only their replies show how many samples they measured on. That takes time too, unless
        #    measurements are free.
        measured = np.array([reply.measured_samples if reply else 0 for reply in replies])
        extra = reuse.surplus + (0 if order.free_probes else measured)
        overhead = self._overhead_of_trials(order, replies)
        if extra.any():
            timing = self._timing(order, sent_bytes, extra + overhead)
        # 3. Replies after the deadline do not count.
        present = finished & (timing.seconds <= order.seconds_left)
        in_time = [reply if ok else None for reply, ok in zip(replies, present, strict=True)]
        self._keep_states(order, in_time)
        return round_outcome(
            order,
            in_time,
            timing,
            extra_samples=extra,
            sent_bytes=sent_bytes,
            gradients=sum(reply is not None and reply.gradient is not None for reply in replies),
        )

    def _overhead_of_trials(self, order: RoundOrder, replies: Sequence[Reply | None]) -> FloatArray:
        """Return how many samples would take as long as the overhead of each client's trials."""
        gradients = np.array([reply.trial_gradients if reply else 0 for reply in replies])
        devices, cohort = self.devices, order.cohort
        overhead = devices.step_overhead[cohort] * devices.samples_per_second[cohort]
        return np.asarray(gradients * overhead)

    def client(self, place: int) -> Client:
        """Return the client at a place in the fleet, with its data."""
        return self.clients.make(place)

    @property
    def _model_bytes(self) -> float:
        """The bytes of a model, sent to the client and back."""
        return 2.0 * self.model.first_weights.numel() * self.model.first_weights.element_size()

    def _seen(self, clients: IntArray, round_index: int) -> IntArray:
        """Return D_i^k, the number of samples that have arrived at each client."""
        if self.streams is None:
            return np.asarray(self.partition.sizes[clients])
        return self.streams.seen(clients, round_index)

    def _timing(
        self, order: RoundOrder, sent_bytes: FloatArray, extra_samples: FloatArray
    ) -> Timing:
        """Return the times of the cohort. A client that has no sample yet is absent.

        Args:
            order: The order of the round.
            sent_bytes: The bytes that each client receives and sends.
            extra_samples: The samples that each client computes on beside its planned batches.
        """
        timing = round_timing(
            self.devices,
            order.cohort,
            seed=self.seed,
            round_index=order.round_index,
            start=order.begins,
            local_steps=order.plan.local_steps,
            batch_sizes=order.plan.batch_sizes,
            round_bytes=sent_bytes,
            extra_samples=extra_samples,
        )
        has_data = self._seen(order.cohort, order.round_index) > 0
        return timing if has_data.all() else timing.with_absent(~has_data)

    def _replies(self, order: RoundOrder, finished: BoolArray) -> list[Reply | None]:
        """Return the reply of each client of the cohort; None if it does not finish the round."""
        positions = np.flatnonzero(finished)
        orders = [order.for_client(int(place)) for place in positions]
        replies = iter(self._execute(orders))
        return [next(replies) if ok else None for ok in finished]

    def _execute(self, orders: Sequence[Order]) -> Sequence[Reply]:
        """Have the executor run the clients' rounds, from their present states."""
        if self.executor is None:
            self.executor = self._choose_executor()
        states = [self._states.get(order.client, ClientState()) for order in orders]
        return self.executor.run_round(orders, states)

    def _choose_executor(self) -> Executor:
        """Return the fastest executor for the model and the number of workers."""
        if can_be_stacked(self.model, self.task.train, self.optimizer):
            return InProcess(self.clients.make, run_stacked)
        if self.workers > 1:
            return WorkerProcesses(self.workers, self.clients.make)
        return InProcess(self.clients.make, run_one_by_one)

    def _keep_states(self, order: RoundOrder, replies: Sequence[Reply | None]) -> None:
        """Keep the new states of the clients that finished in time."""
        states = {
            int(client): reply.state
            for client, reply in zip(order.cohort, replies, strict=True)
            if reply is not None
        }
        self._states.update(states)
        if self.executor is not None:
            self.executor.keep(states)
