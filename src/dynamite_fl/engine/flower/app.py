"""Algorithm 3 as a Flower ClientApp: what a device does with a message.

Its data and its state stay on the device; weights, a probe's figures and its gradient leave.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor

from dynamite_fl.client.client import Client, Order
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.client.probe import gradient_variance
from dynamite_fl.engine.flower.keep import StateFiles
from dynamite_fl.engine.flower.message import (
    Introduction,
    Origin,
    Work,
    check_order,
    from_content,
    to_content,
)

_TRIAL_SAMPLES = 32


def client_app(make_client: Callable[[Context], Client], folder: Path | None = None) -> ClientApp:
    """A ClientApp that plays rounds.

    The node's configuration may have ``name``, what the device is called; ``state``, the folder
    for what it carries from round to round; and ``cpu_share``, how much of the time it computes,
    for a device that has other things to do.

    Args:
        make_client: The client with this device's data; called once in a process.
        folder: For the state, in place of the configuration's ``state``.
    """
    device = _Device(make_client, folder)
    app = ClientApp()
    app.query()(device.introduce)
    app.train()(device.train)
    return app


class _Device:
    """A client, made when it is first needed."""

    def __init__(self, make_client: Callable[[Context], Client], folder: Path | None) -> None:
        self._make_client = make_client
        self._folder = folder
        self._client: Client | None = None
        self._speed: float | None = None

    def introduce(self, message: Message, context: Context) -> Message:
        """Say who this is, and how fast."""
        began = time.perf_counter()
        client = self._made(context)
        if self._speed is None:
            self._speed = _share(context) * _trial(client)
        met = Introduction(
            name=_name(context),
            samples=_samples(client),
            samples_per_second=self._speed,
            seconds=time.perf_counter() - began,
        )
        return Message(to_content(introduction=met), reply_to=message)

    def train(self, message: Message, context: Context) -> Message:
        """Play a round, from the state that the last one left."""
        client = self._made(context)
        order = from_content(message.content, "order", Order)
        training = from_content(message.content, "origin", Origin).training
        only_sketches = client.settings.only_sketches
        check_order(order, client.model.first_weights, only_sketches=only_sketches)
        files = StateFiles(self._folder or Path(str(context.node_config["state"])))
        state = files.before(training, order.round_index)
        watched = _Watched(client.model, _share(context))
        began = time.perf_counter()
        reply = replace(client, model=cast(FlatModel, watched)).play(order, state)
        seconds = time.perf_counter() - began
        files.save(training, order.round_index, reply.state)
        work = Work(
            computed=watched.samples,
            step_seconds=watched.seconds / order.local_steps,
            seconds=seconds,
        )
        return Message(to_content(reply=reply, work=work), reply_to=message)

    def _made(self, context: Context) -> Client:
        if self._client is None:
            torch.set_num_threads(1)  # two threads on busy cores can be many times slower
            self._client = self._make_client(context)
        return self._client


class _Watched:
    """A model that notes how long its gradients take, from the first's begin to the last's end.

    With a share of the time below 1, it rests after each.
    """

    def __init__(self, model: FlatModel, share: float) -> None:
        self._model = model
        self._share = share
        self._began: float | None = None
        self.seconds = 0.0
        self.samples = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def gradient(self, weights: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The model's own."""
        now = time.perf_counter()
        if self._began is None:
            self._began = now
        found = self._model.gradient(weights, inputs, targets)
        if self._share < 1:
            time.sleep((time.perf_counter() - now) * (1 / self._share - 1))
        self.seconds = time.perf_counter() - self._began
        self.samples += len(inputs)
        return found


def _name(context: Context) -> str:
    """What the device calls itself; its node's number if it has no name."""
    return str(context.node_config.get("name", f"node-{context.node_id:x}"))


def _share(context: Context) -> float:
    return float(context.node_config.get("cpu_share", 1.0))


def _samples(client: Client) -> int:
    """How many it has before the first round; where they stream in, rounds will tell."""
    return int(client.indices.size) if client.receive is None else 1


def _trial(client: Client) -> float:
    """Samples a second in a gradient; what is computed for the first time does not count."""
    inputs, targets = client.inputs[:_TRIAL_SAMPLES], client.targets[:_TRIAL_SAMPLES]
    weights = client.model.first_weights
    gradient_variance(client.model, weights, inputs[:2], targets[:2])
    client.model.gradient(weights, inputs, targets)
    began = time.perf_counter()
    client.model.gradient(weights, inputs, targets)
    return len(inputs) / max(time.perf_counter() - began, 1e-9)
