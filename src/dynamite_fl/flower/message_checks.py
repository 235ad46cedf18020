"""Checks of the values in messages, where they arrive.

A message with a value that cannot be used is ``Malformed``: its sender is absent in the round, and
nobody else is affected.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

import torch
from torch import Tensor

from dynamite_fl._validate import check_name, check_number, check_whole
from dynamite_fl.client.messages import RATE_TRIALS, Order, Reply
from dynamite_fl.client.model_outline import ModelOutline, difference
from dynamite_fl.client.sketch import sketch
from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower.messages import Introduction, Work
from dynamite_fl.flower.wire import Malformed

_MAX_STEPS = 1_000_000
_MAX_SAMPLES = 1_000_000_000
_MAX_NAME_LENGTH = 200


@contextmanager
def _invalid_as_malformed() -> Iterator[None]:
    """Raise Malformed for numbers that cannot be used, so that their sender is absent."""
    try:
        yield
    except InvalidInput as error:
        raise Malformed(str(error)) from None


@_invalid_as_malformed()
def check_order(order: Order, like: Tensor, *, only_sketches: bool) -> None:
    """Refuse an order that is out of range, or that asks for more than the device gives away.

    Args:
        order: The order.
        like: A model of the right shape, (d,).
        only_sketches: Whether the device refuses to send a whole gradient.

    Raises:
        Malformed: The order cannot be followed; the text says why.
    """
    check_whole("local_steps", order.local_steps, least=1, most=_MAX_STEPS)
    check_whole("batch_size", order.batch_size, least=1, most=_MAX_SAMPLES)
    check_whole("round_index", order.round_index, least=1, most=_MAX_SAMPLES)
    check_whole("client", order.client, least=0, most=_MAX_SAMPLES)
    check_number("learning_rate", order.learning_rate)
    check_name("rate_trial", order.rate_trial, RATE_TRIALS)
    _shape("weights", order.weights, like)
    if not torch.isfinite(order.weights).all():
        raise Malformed("the weights are not finite")
    if order.probe and only_sketches and not order.sketch:
        raise Malformed(
            "the order asks for a whole gradient, but the job of this node has "
            'training.probe_gradient = "sketch"'
        )


def check_private_order(order: Order) -> None:
    """Refuse an order for measurements, which a device with private updates does not send.

    Raises:
        Malformed: The order asks for a measurement.
    """
    if order.probe or order.path or order.rate_trial != "none":
        raise Malformed(
            "the order asks for measurements of this node's data, but its job has "
            'privacy.noise_at = "node"'
        )


@_invalid_as_malformed()
def check_introduction(
    introduction: Introduction, max_samples: int, model: ModelOutline | None = None
) -> None:
    """Refuse an introduction that cannot be true, and a device that trains another model.

    Args:
        introduction: The introduction.
        max_samples: The largest number of samples that a device may claim to hold.
        model: The outline of the server's model; None to accept any.

    Raises:
        Malformed: A value is out of range, or the model is another; the text says which.
    """
    name = introduction.name
    if not 0 < len(name) <= _MAX_NAME_LENGTH or not name.isprintable():
        raise Malformed(f"its name must be 1 to {_MAX_NAME_LENGTH} printable characters")
    if name != name.strip() or name.startswith("#"):  # a line of excluded.txt would be read so
        raise Malformed("its name must not begin with # or with a space, nor end with a space")
    check_whole("samples", introduction.samples, least=1, most=max_samples)
    check_number("samples_per_second", introduction.samples_per_second)
    check_number("seconds", introduction.seconds)
    if model is not None and (different := difference(model, introduction.model)) is not None:
        raise Malformed(
            f"{name} trains another model: {different}; give all machines the same job and modules"
        )


@_invalid_as_malformed()
def checked_reply(
    reply: Reply,
    work: Work,
    like: Tensor,
    trained: int,
    max_samples: int,
    *,
    sketched: bool = False,
) -> Reply:
    """Return a reply without the measurements that cannot be used.

    Weights that are not finite stay in the reply: the loop counts them, and stops the training
    if all updates of a round are like that.

    Args:
        reply: The reply.
        work: The amount of its sender's work, and how long it took.
        like: A model of the right shape, (d,).
        trained: The number of trained weights, which come first in it.
        max_samples: The largest number of samples that a device may claim to hold.
        sketched: Whether sketches of gradients were asked for in place of gradients.

    Raises:
        Malformed: The weights are not of the model's shape, or a number cannot be true.
    """
    check_whole("samples", reply.samples, least=1, most=max_samples)
    check_whole("computed", work.computed, least=1, most=_MAX_STEPS * _MAX_SAMPLES)
    check_number("step_seconds", work.step_seconds)
    check_number("seconds", work.seconds)
    _shape("weights", reply.weights, like)
    for name in ("learning_rate", "stable_rate", "race_factor"):
        value = getattr(reply, name)
        if not math.isnan(value):
            check_number(name, value, positive=True)
    if reply.steepness < 0 or math.isinf(reply.steepness):
        raise Malformed(f"steepness is {reply.steepness}: it must be a number of 0 or more")
    for field in fields(reply):
        value = getattr(reply, field.name)
        if type(value) is int:
            check_whole(field.name, value, least=0, most=_MAX_SAMPLES)
    if reply.gradient is not None:
        gradient = like[:trained]
        _shape("gradient", reply.gradient, sketch(gradient) if sketched else gradient)
    if not (_are_measurements_valid(reply) and torch.isfinite(reply.weights).all()):
        return replace(reply, figures=None, gradient=None, gradient_variance=None)
    return reply


def check_path(reply: Reply, trained: int, *, asked: bool) -> None:
    """Refuse a reply whose path is missing, was not asked for, or cannot be used.

    The path of a reply whose weights are not finite is not checked, as the loop refuses both.

    Args:
        reply: The reply.
        trained: The number of trained weights of the model.
        asked: Whether a path was asked for.

    Raises:
        Malformed: The path is not as it must be; the text says why.
    """
    if (reply.path is not None) != asked:
        raise Malformed("its path is missing" if asked else "it has a path that was not asked for")
    if reply.path is None or not torch.isfinite(reply.weights).all():
        return
    like = sketch(reply.weights[:trained])
    variance = reply.path.gradient_variance
    sketches = [reply.path.first_half]
    if reply.path.gradient_sum is not None:
        sketches.append(reply.path.gradient_sum)
    for part in sketches:
        _shape("the sketch of the path", part, like)
    is_finite = all(bool(torch.isfinite(part).all()) for part in sketches)
    if not is_finite or variance < 0 or math.isinf(variance):
        raise Malformed("its path is not finite, or its gradient variance is negative")


def _are_measurements_valid(reply: Reply) -> bool:
    """Return whether a probe has no infinite figure, and no negative one where none can be."""
    figures = {} if reply.figures is None else vars(reply.figures)
    variance = reply.gradient_variance
    return (
        not any(math.isinf(figure) for figure in figures.values())
        and not any(f < 0 for name, f in figures.items() if name not in ("drift", "loss"))
        and (variance is None or 0 <= variance < math.inf)
        and (reply.gradient is None or bool(torch.isfinite(reply.gradient).all()))
    )


def _shape(name: str, tensor: Tensor, like: Tensor) -> None:
    if tensor.dtype != like.dtype:
        raise Malformed(f"{name}: the numbers are {tensor.dtype}, not {like.dtype}")
    if tensor.shape != like.shape:
        raise Malformed(f"{name}: the shape is {tuple(tensor.shape)}, not {tuple(like.shape)}")
