"""Records as Flower messages and back, checked where they arrive.

Tensors, numbers and words are sent under the names of records and fields; reading takes names and
types from the code. What does not fit is ``Malformed``, which costs its sender the round and nobody
else anything.
"""

import math
import types
import typing
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from flwr.app import RecordDict
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.client.client import ClientState, Order, Reply
from dynamite_fl.client.sketch import sketch
from dynamite_fl.engine.flower.parcel import Malformed, unwrapped, wrapped

TRAIN, INTRODUCE = "train", "query"  # Flower's names for the two things that are asked

_STAYS = "state"  # the field of a reply that never leaves the device
_MOST_STEPS = 1_000_000
_MOST_SAMPLES = 1_000_000_000

Record = TypeVar("Record")
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Origin:
    """Which training an order is of, so that a device keeps no state from another."""

    training: str


@dataclass(frozen=True)
class Introduction:
    """How a device presents itself.

    Attributes:
        name: Its own, which it keeps when it comes back.
        samples: How many it holds.
        samples_per_second: Its speed in a short trial, a first guess.
        seconds: How long it took to find all this out.
    """

    name: str
    samples: int
    samples_per_second: float
    seconds: float


@dataclass(frozen=True)
class Work:
    """What a round took a device, beside its reply.

    Attributes:
        computed: How many it computed gradients on in its local steps.
        step_seconds: Of one local step.
        seconds: Of all that it computed.
    """

    computed: int
    step_seconds: float
    seconds: float


def to_content(**records: Any) -> RecordDict:
    """Records by their names, as a message's content.

    Example:
        >>> content = to_content(work=Work(computed=4, step_seconds=0.5, seconds=1.0))
        >>> from_content(content, "work", Work)
        Work(computed=4, step_seconds=0.5, seconds=1.0)
    """
    arrays: Arrays = {}
    values: dict[str, Any] = {}
    for name, record in records.items():
        _flatten(record, f"{name}.", arrays, values)
    return wrapped(arrays, values)


def from_content(content: RecordDict, name: str, kind: type[Record]) -> Record:
    """The record of this name and type.

    Raises:
        Malformed: It is not there, or something in it is missing or of another type.
    """
    arrays, values = unwrapped(content)
    record: Record = _build(kind, f"{name}.", arrays, values)
    return record


def check_order(order: Order, like: Tensor, *, only_sketches: bool) -> None:
    """Refuse an order that no server of ours gives, or that asks for more than the device gives.

    Raises:
        Malformed: It says what is wrong.
    """
    _whole("local_steps", order.local_steps, 1, _MOST_STEPS)
    _whole("batch_size", order.batch_size, 1, _MOST_SAMPLES)
    _whole("round_index", order.round_index, 1, _MOST_SAMPLES)
    _whole("client", order.client, 0, _MOST_SAMPLES)
    _number("learning_rate", order.learning_rate)
    _shape("weights", order.weights, like)
    if not torch.isfinite(order.weights).all():
        raise Malformed("weights are not finite")
    if order.probe and only_sketches and not order.sketch:
        raise Malformed('it asks for a whole gradient: here training.probe_gradient is "sketch"')


def check_introduction(met: Introduction, most_samples: int) -> None:
    """Refuse a device that says of itself what cannot be.

    Raises:
        Malformed: It says what is wrong.
    """
    if not 0 < len(met.name) <= 200 or not met.name.isprintable():
        raise Malformed("its name must be 1 to 200 printable characters")
    _whole("samples", met.samples, 1, most_samples)
    _number("samples_per_second", met.samples_per_second)
    _number("seconds", met.seconds)


def checked_reply(
    reply: Reply, work: Work, like: Tensor, most_samples: int, *, sketched: bool = False
) -> Reply:
    """A reply without those figures that cannot be used.

    Weights that are not finite stay: that is for the loop to see, as it may be the training
    that left all numbers.

    Raises:
        Malformed: Its weights are no model, or it says of itself what cannot be.
    """
    _whole("samples", reply.samples, 1, most_samples)
    _whole("computed", work.computed, 1, _MOST_STEPS * _MOST_SAMPLES)
    _number("step_seconds", work.step_seconds)
    _number("seconds", work.seconds)
    _shape("weights", reply.weights, like)
    for field in fields(reply):
        value = getattr(reply, field.name)
        if type(value) is int:
            _whole(field.name, value, 0, _MOST_SAMPLES)
    if reply.gradient is not None:
        _shape("gradient", reply.gradient, sketch(like) if sketched else like)
    if not (_sound(reply) and torch.isfinite(reply.weights).all()):
        return replace(reply, figures=None, gradient=None, gradient_variance=None)
    return reply


def check_path(reply: Reply, asked: bool) -> None:
    """Refuse a reply whose path is not what was asked for.

    What comes with weights that are not finite goes with them.

    Raises:
        Malformed: It says what is wrong.
    """
    if (reply.path is not None) != asked:
        raise Malformed("its path is missing" if asked else "it has a path nobody asked for")
    if reply.path is None or not torch.isfinite(reply.weights).all():
        return
    _shape("the path's head", reply.path.head, sketch(reply.weights))
    variance = reply.path.gradient_variance
    if not torch.isfinite(reply.path.head).all() or variance < 0 or math.isinf(variance):
        raise Malformed("its path is not finite or its gradient variance is negative")


def _sound(reply: Reply) -> bool:
    """Whether a probe's figures are not negative, but for the drift, and never infinite."""
    figures = {} if reply.figures is None else vars(reply.figures)
    variance = reply.gradient_variance
    return (
        not any(math.isinf(figure) for figure in figures.values())
        and not any(figure < 0 for name, figure in figures.items() if name != "drift")
        and (variance is None or 0 <= variance < math.inf)
        and (reply.gradient is None or bool(torch.isfinite(reply.gradient).all()))
    )


def _flatten(record: Any, path: str, arrays: Arrays, values: dict[str, Any]) -> None:
    for field in fields(record):
        name, value = path + field.name, getattr(record, field.name)
        if field.name == _STAYS or value is None:
            continue
        if is_dataclass(value):
            _flatten(value, f"{name}.", arrays, values)
        elif isinstance(value, Tensor):
            arrays[name] = value.detach().numpy()
        else:
            values[name] = value


def _build(kind: Any, path: str, arrays: Arrays, values: dict[str, Any]) -> Any:
    found: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind).items():
        if name == _STAYS:
            found[name] = ClientState()
            continue
        choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        there = any(key == path + name or key.startswith(f"{path}{name}.") for key in values)
        if path + name not in arrays and not there:
            if type(None) not in choices:
                raise Malformed(f"{path}{name} is missing")
            found[name] = None
            continue
        (wanted,) = (choice for choice in choices if choice is not type(None))
        if is_dataclass(wanted):
            found[name] = _build(wanted, f"{path}{name}.", arrays, values)
        elif wanted is Tensor:
            found[name] = _tensor(path + name, arrays.get(path + name))
        else:
            found[name] = _value(path + name, values.get(path + name), wanted)
    try:
        return kind(**found)
    except (TypeError, ValueError) as error:
        raise Malformed(str(error)) from None


def _tensor(name: str, array: NDArray[Any] | None) -> Tensor:
    if array is None or array.dtype != np.float32:
        raise Malformed(f"{name} is no array of float32")
    return torch.from_numpy(array.copy())


def _value(name: str, value: object, wanted: type) -> Any:
    if wanted is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Malformed(f"{name} is a number of {value.bit_length()} bits") from None
    if type(value) is not wanted:
        raise Malformed(f"{name} is a {type(value).__name__}, not a {wanted.__name__}")
    return value


def _shape(name: str, tensor: Tensor, like: Tensor) -> None:
    if tensor.shape != like.shape:
        raise Malformed(f"{name} are of shape {tuple(tensor.shape)}, not {tuple(like.shape)}")


def _whole(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Malformed(f"{name} is {value}: it must be from {least} to {most:,}")


def _number(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise Malformed(f"{name} is {value}: it must be a number, 0 or more")
