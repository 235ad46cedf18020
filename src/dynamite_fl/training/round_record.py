"""One round as it is kept in a history: a record, and its line of JSON.

The types of the record's fields are also the rules by which a line is checked when it is read.
"""

import json
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from dynamite_fl._json import json_ready

_LARGEST = sys.float_info.max


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """What happened in one round. A line of the history has these fields in this order.

    Clients are given by their index in the fleet. A field is None if it was not measured in this
    round; the last nine fields are left out of the line then.

    Attributes:
        round: Number of the round, from 1.
        seconds: Seconds since training began, this round included.
        cost: Cost of the training so far, this round included.
        samples: Samples that all clients have computed on so far.
        sent_bytes: Bytes that were sent so far, both ways.
        round_seconds: Seconds that this round took.
        local_steps: Local steps of each client.
        batch_mean: Mean batch size of the clients.
        batch_least: Smallest batch size.
        batch_most: Largest batch size.
        slowest: The client that took longest. None if no client took part.
        bound: The error bound that the plan of this round minimizes. None if there is none.
        probed: Whether clients measured the loss for the controller's estimates.
        absent: The clients that were away, or too late.
        refused: Number of updates that were NaN, infinite or misshapen.
        returned: Whether the training returned to an earlier model, because the model was ruined or
            the round was in vain.
        metrics: The metrics of the new model on the test data by name, the leading one first. None
            if it was not evaluated; a metric that is NaN or infinite is None.
        loss: Loss of the new model on the test data. None if it was not evaluated.
        estimates: The controller's estimates after this round, by name.
        learning_rate: Learning rate of the local steps. None if it is constant.
        epsilon: Privacy loss of the training so far, this round included. None without
            differential privacy.
        class_accuracy: Accuracy on each class of the test data.
        client_metrics: The leading metric on each client's own test data, in the fleet's order.
        stream_loss: Loss on all data that has arrived so far.
        clients: The clients of the round. None if there are too many to list.
        batch_sizes: Batch size of each client, in the order of ``clients``.
        step_seconds: Seconds of one local step of each client; None for an absent one.
        comm_seconds: Seconds of communication of each client; None for an absent one.
        arrived: Samples that each client has received so far; None for an absent one.

    Example:
        >>> record = RoundRecord(round=1, seconds=2.0, cost=3.0, local_steps=4, batch_mean=5.0)
        >>> parse_line(record.to_line()) == record
        True
    """

    round: int
    seconds: float
    cost: float
    samples: int = 0
    sent_bytes: int = 0
    round_seconds: float | None = None
    local_steps: int
    batch_mean: float
    batch_least: int | None = None
    batch_most: int | None = None
    slowest: int | None = None
    bound: float | None = None
    probed: bool = False
    absent: tuple[int, ...] = ()
    refused: int = 0
    returned: bool = False
    metrics: Mapping[str, float | None] | None = None
    loss: float | None = None
    estimates: Mapping[str, float | None] = field(default_factory=dict)
    learning_rate: float | None = None
    epsilon: float | None = None
    class_accuracy: Mapping[str, float | None] | None = None
    client_metrics: tuple[float | None, ...] | None = None
    stream_loss: float | None = None
    clients: tuple[int, ...] | None = None
    batch_sizes: tuple[int | None, ...] | None = None
    step_seconds: tuple[float | None, ...] | None = None
    comm_seconds: tuple[float | None, ...] | None = None
    arrived: tuple[int | None, ...] | None = None

    @property
    def is_evaluated(self) -> bool:
        """Whether the new model was evaluated."""
        return self.metrics is not None or self.loss is not None

    def value(self, name: str) -> Any:
        """Return a field, or a metric, by its name; None if it was not measured.

        Example:
            >>> record = RoundRecord(
            ...     round=1,
            ...     seconds=2.0,
            ...     cost=3.0,
            ...     local_steps=4,
            ...     batch_mean=5.0,
            ...     metrics={"f1": 0.9},
            ... )
            >>> record.value("cost"), record.value("f1"), record.value("loss")
            (3.0, 0.9, None)
        """
        return getattr(self, name) if name in FIELDS else (self.metrics or {}).get(name)

    def values(self) -> dict[str, Any]:
        """Return the fields by name, without those that are left out of a line."""
        values = {name: getattr(self, name) for name in FIELDS}
        return {k: value for k, value in values.items() if k not in _OMITTED or value is not None}

    def to_line(self) -> str:
        """Return the record as a line of the history. NaN and infinity become null."""
        return json.dumps(json_ready(self.values()), allow_nan=False) + "\n"


FIELDS = tuple(entry.name for entry in fields(RoundRecord))
_TYPES = get_type_hints(RoundRecord)
_REQUIRED = tuple(
    entry.name
    for entry in fields(RoundRecord)
    if entry.default is MISSING and entry.default_factory is MISSING
)
_OF_CLIENTS = ("batch_sizes", "step_seconds", "comm_seconds", "arrived")
_OMITTED = (
    "learning_rate",
    "epsilon",
    "class_accuracy",
    "client_metrics",
    "stream_loss",
    "clients",
    *_OF_CLIENTS,
)


def parse_line(text: str) -> RoundRecord | None:
    """Return the round that a line describes; None if the line is damaged.

    A line is damaged if a field without a default is missing or not of its type. Other fields that
    are not of their type are left out, as are fields that the record does not have. A line of an
    older version has ``accuracy`` instead of ``metrics``.

    Example:
        >>> parse_line('{"round": 1, "seconds": "two"}') is None
        True
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    if "metrics" not in values and values.get("accuracy") is not None:
        values["metrics"] = {"accuracy": values["accuracy"]}
    sound: dict[str, Any] = {
        name: tuple(values[name]) if isinstance(values[name], list) else values[name]
        for name in FIELDS
        if name in values and _is_of_type(values[name], _TYPES[name])
    }
    if any(name not in sound for name in _REQUIRED):
        return None
    clients = sound.get("clients")
    for name in _OF_CLIENTS:
        column = sound.get(name)
        if column is not None and (clients is None or len(column) != len(clients)):
            del sound[name]
    return RoundRecord(**sound)


def _is_of_type(value: object, expected: Any) -> bool:
    """Check a value read from JSON against the type of a field."""
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in (types.UnionType, Union):
        return any(_is_of_type(value, argument) for argument in arguments)
    if origin is tuple:
        return isinstance(value, list) and all(_is_of_type(v, arguments[0]) for v in value)
    if origin is not None:  # a mapping from names
        return isinstance(value, dict) and all(
            _is_of_type(entry, arguments[1]) for entry in value.values()
        )
    if expected is float or expected is int:
        return _is_number(value, int if expected is int else int | float)
    return isinstance(value, expected)


def _is_number(value: object, kind: Any) -> bool:
    """Check for a number that a float can hold; True and False are no numbers."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return False
    return bool(-_LARGEST <= value <= _LARGEST)  # type: ignore[operator]  # False for NaN
