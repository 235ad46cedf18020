"""A Flower ClientApp that runs Algorithm 3 on a device.

The device's data and state stay on it. Its local model, a probe's figures and a probe's gradient
are sent.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from dynamite_fl._allocator import keep_freed_memory
from dynamite_fl._random import random_stream
from dynamite_fl.client.client import Client
from dynamite_fl.client.local_data.store import SampleStore
from dynamite_fl.client.local_steps import AutogradSteps, Measured
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.client.model_outline import outline_of
from dynamite_fl.flower.message_checks import check_order, check_private_order
from dynamite_fl.flower.messages import (
    Introduction,
    Notice,
    TrainOrder,
    Work,
    from_content,
    to_content,
    train_reply,
)
from dynamite_fl.flower.node_state import StateFiles
from dynamite_fl.flower.plain_text import plain
from dynamite_fl.records import IntArray
from dynamite_fl.task.keyed_random import keyed_random

_log = logging.getLogger(__name__)
_TRIAL_SAMPLES = 32


def client_app(make_client: Callable[[Context], Client], folder: Path | None = None) -> ClientApp:
    """Return a ClientApp that runs a client's rounds.

    The node's configuration may have the keys ``name``, the name of the device; ``state``, the
    folder for the state between rounds; and ``cpu_share``, the share of the time in which the
    device computes, for devices that have other work to do.

    Args:
        make_client: Makes the client with this device's data; called once in a process.
        folder: The folder for the state, instead of the configuration's ``state``.
    """
    device = _Device(make_client, folder)
    app = ClientApp()
    app.query()(device.introduce)
    app.train()(device.train)
    app.query("notice")(hear)
    return app


def hear(message: Message, context: Context) -> Message:  # noqa: ARG001  as Flower calls it
    """Log what the server tells this node, and confirm it."""
    notice = from_content(message.content, Notice)
    _log.log(logging.INFO if notice.is_end else logging.WARNING, "%s", plain(notice.text))
    return Message(RecordDict(), reply_to=message)


class _Device:
    """A device that answers messages; its client is made for the first message."""

    def __init__(self, make_client: Callable[[Context], Client], folder: Path | None) -> None:
        self._make_client = make_client
        self._folder = folder
        self._client: Client | None = None
        self._samples_per_second: float | None = None
        self._training: str | None = None  # the training that the store's rounds are of
        self._saved_samples = 0  # the number of samples seen when the store was last saved

    def introduce(self, message: Message, context: Context) -> Message:
        """Answer with the device's name and speed."""
        began = time.perf_counter()
        client = self._get_client(context)
        if self._samples_per_second is None:
            self._samples_per_second = _cpu_share(context) * _measure_speed(client)
        introduction = Introduction(
            name=_name(context),
            samples=_samples(client),
            samples_per_second=self._samples_per_second,
            seconds=time.perf_counter() - began,
            model=outline_of(client.model.module),
            streams=client.incoming is not None,
        )
        return Message(to_content(introduction), reply_to=message)

    def train(self, message: Message, context: Context) -> Message:
        """Run a round from the state after the last one."""
        client, files = self._get_client(context), self._files(context)
        received = from_content(message.content, TrainOrder)
        order, training = received.order, received.training
        only_sketches = client.settings.only_sketches
        check_order(order, client.model.first_weights, only_sketches=only_sketches)
        if client.privacy is not None:
            check_private_order(order)
        self._begin_training(client, training)
        state = files.before(training, order.round_index)
        steps = _TimedSteps(client, state, _cpu_share(context))
        began = time.perf_counter()
        reply = client.run_round(order, state, steps)
        seconds = time.perf_counter() - began
        self._save_samples(client, training, files)
        files.save(training, order.round_index, reply.state)
        work = Work(
            computed=steps.computed,
            step_seconds=steps.seconds / order.local_steps,
            seconds=seconds,
        )
        return Message(to_content(train_reply(received, reply, work)), reply_to=message)

    def _files(self, context: Context) -> StateFiles:
        return StateFiles(self._folder or Path(str(context.node_config["state"])))

    def _get_client(self, context: Context) -> Client:
        """Return the client; the first call makes it and restores its samples."""
        if self._client is None:
            torch.set_num_threads(1)  # two threads on busy cores can be many times slower
            keep_freed_memory()
            client = self._make_client(context)
            if isinstance(client.incoming, SampleStore):
                self._training = self._files(context).restore_samples(client.incoming)
                self._saved_samples = client.incoming.seen
            self._client = client
        return self._client

    def _begin_training(self, client: Client, training: str) -> None:
        if isinstance(client.incoming, SampleStore) and training != self._training:
            client.incoming.begin_training()
            self._training = training

    def _save_samples(self, client: Client, training: str, files: StateFiles) -> None:
        """Save the device's samples if some have arrived since the last time."""
        store = client.incoming
        if isinstance(store, SampleStore) and store.seen != self._saved_samples:
            files.save_samples(training, store.state)
            self._saved_samples = store.seen


class _TimedSteps(AutogradSteps):
    """Steps that measure the time from the first step's start to the last one's end.

    Steps of trials, which come before or after the local steps of an order, do not count.

    Args:
        client: The client that takes the steps.
        state: The client's state before the round.
        cpu_share: The share of the time in which it computes; it sleeps in the rest of the time.

    Attributes:
        seconds: The seconds from the first local step's start to the last one's end.
        computed: The number of samples in the batches of all local steps.
    """

    def __init__(self, client: Client, state: ClientState, cpu_share: float) -> None:
        super().__init__(client.model, client.samples, client.optimizer, state)
        self._cpu_share = cpu_share
        self._began: float | None = None
        self._left = 0  # local steps that are still to come
        self.seconds = 0.0
        self.computed = 0

    def begin(self, order: Order, clients: int) -> None:
        """Begin to count again: what came before were trial steps; see ``StepComputer``."""
        super().begin(order, clients)
        self._began, self.seconds, self.computed = None, 0.0, 0
        self._left = order.local_steps

    def step(self, batches: Sequence[IntArray], *, measure: bool) -> Measured:
        """Take one local step; see ``StepComputer``."""
        now = time.perf_counter()
        if self._began is None:
            self._began = now
        measured = super().step(batches, measure=measure)
        if self._cpu_share < 1:
            time.sleep((time.perf_counter() - now) * (1 / self._cpu_share - 1))
        if self._left > 0:
            self._left -= 1
            self.seconds = time.perf_counter() - self._began
            self.computed += sum(batch.size for batch in batches)
        return measured


def _name(context: Context) -> str:
    """Return the device's name; its node's number if it has none."""
    return str(context.node_config.get("name", f"node-{context.node_id:x}"))


def _cpu_share(context: Context) -> float:
    return float(context.node_config.get("cpu_share", 1.0))


def _samples(client: Client) -> int:
    """Return the number of samples before the first round, at least 1 if more can arrive."""
    if client.incoming is None:
        return int(client.indices.size)
    return max(client.incoming.seen, 1) if isinstance(client.incoming, SampleStore) else 1


def _measure_speed(client: Client) -> float:
    """Measure the samples per second of a gradient, after a first one that does not count."""
    rows = client.indices if client.indices.size else np.arange(len(client.samples))
    batch = client.samples.batch(rows[:_TRIAL_SAMPLES])
    weights = client.model.first_weights
    with keyed_random(random_stream(client.seed, "speed"), client.model.device):
        client.model.gradient(weights, batch)
        began = time.perf_counter()
        client.model.gradient(weights, batch)
    return min(rows.size, _TRIAL_SAMPLES) / max(time.perf_counter() - began, 1e-9)
