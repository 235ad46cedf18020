"""Nodes that compute correctly and then lie about it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from flwr.app import Context, Message

from dynamite_fl.client.messages import Order
from dynamite_fl.flower.messages import (
    TRAIN,
    Introduction,
    TrainOrder,
    TrainReply,
    from_content,
    to_content,
)
from tests.flower.local_grid import App

Lie = Callable[[TrainReply, Order, Sequence[TrainReply]], TrainReply]


def _says(**reply: Any) -> Lie:
    return lambda sent, _, __: replace(sent, reply=replace(sent.reply, **reply))


def _works(**work: Any) -> Lie:
    return lambda sent, _, __: replace(sent, work=replace(sent.work, **work))


def _moves(factor: float) -> Lie:
    """Multiply the movement of the local model."""

    def lie(sent: TrainReply, order: Order, _: Sequence[TrainReply]) -> TrainReply:
        moved = order.weights + factor * (sent.reply.weights - order.weights)
        return replace(sent, reply=replace(sent.reply, weights=moved))

    return lie


def _filled(value: float, **reply: Any) -> Lie:
    def lie(sent: TrainReply, _: Order, __: Sequence[TrainReply]) -> TrainReply:
        weights = torch.full_like(sent.reply.weights, value)
        return replace(sent, reply=replace(sent.reply, weights=weights, **reply))

    return lie


def _path(**changes: float) -> Lie:
    def lie(sent: TrainReply, _: Order, __: Sequence[TrainReply]) -> TrainReply:
        path = sent.reply.path
        if path is None:
            return sent
        values = {
            name: torch.full_like(path.first_half, value) if name == "first_half" else value
            for name, value in changes.items()
        }
        changed: Any = replace(path, **values)  # type: ignore[arg-type]
        return replace(sent, reply=replace(sent.reply, path=changed))

    return lie


def _old_reply(sent: TrainReply, _: Order, earlier: Sequence[TrainReply]) -> TrainReply:
    return earlier[-3] if len(earlier) > 2 else sent


# The lies of one node that once ended, ruined or slowed the training of all.
LIES: dict[str, Lie] = {
    "step seconds of 1e6": _works(step_seconds=1e6),
    "step seconds of 1e308": _works(step_seconds=1e308),
    "step seconds of 0": _works(step_seconds=0.0),
    "seconds of 1e6": _works(seconds=1e6),
    "weights of 3e38": _filled(3e38),
    "an update times 1000": _moves(1000.0),
    "an update times -50": _moves(-50.0),
    "ten million samples and no weights": _filled(0.0, samples=10_000_000),
    "ten million samples": _says(samples=10_000_000),
    "a gradient variance of 1e29": _path(gradient_variance=1e29),
    "a first half of 1e14": _path(first_half=1e14),
    "a reply of two rounds ago": _old_reply,
    "far too many computed samples": _works(computed=10**9),
    "far too many measured samples": _says(measured_samples=10**6),
}

INTRODUCTIONS: dict[str, dict[str, float]] = {
    "a speed of 0": {"samples_per_second": 0.0},
    "a speed of 1e308": {"samples_per_second": 1e308},
    "a long introduction": {"seconds": 1e9},
}


def lying(app: App, name: str, rounds: Sequence[int] | None = None) -> App:
    """Return a node that lies in some of its rounds, counted from 1; by default in all of them."""
    earlier: list[TrainReply] = []

    def handle(message: Message, context: Context) -> Message:
        sent = app(message, context)
        if message.metadata.message_type != TRAIN:
            if name in INTRODUCTIONS:
                true = from_content(sent.content, Introduction)
                told: Any = replace(true, **INTRODUCTIONS[name])  # type: ignore[arg-type]
                return Message(to_content(told), reply_to=message)
            return sent
        reply = from_content(sent.content, TrainReply)
        earlier.append(reply)
        if name in INTRODUCTIONS or (rounds is not None and len(earlier) not in rounds):
            return sent
        order = from_content(message.content, TrainOrder).order
        return Message(to_content(LIES[name](reply, order, earlier)), reply_to=message)

    return handle
