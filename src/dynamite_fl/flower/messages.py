"""Records as Flower messages and back.

``training/codec.py`` turns records into bytes and checks the types of what it reads.
``message_checks.py`` checks the values.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from flwr.app import RecordDict

from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.model_outline import ModelOutline
from dynamite_fl.flower.wire import Malformed, pack, unpack
from dynamite_fl.training.codec import from_bytes, to_bytes

TRAIN, INTRODUCE = "train", "query"  # Flower's types for the messages that a server sends
NOTICE = "query.notice"

_NO_OUTLINE = ModelOutline()

Record = TypeVar("Record")


@dataclass(frozen=True)
class Introduction:
    """What a device reports about itself when it connects.

    Attributes:
        name: The name of the device, which it keeps when it reconnects.
        samples: The number of samples that it holds.
        samples_per_second: The speed of the device in a short trial, as a first guess.
        seconds: Seconds that the device took to find this out.
        model: The outline of the model that it trains.
        streams: Whether samples keep arriving, so that their number changes.
    """

    name: str
    samples: int
    samples_per_second: float
    seconds: float
    model: ModelOutline = _NO_OUTLINE
    streams: bool = False


@dataclass(frozen=True)
class Notice:
    """A message from the server to a node, other than an order.

    Attributes:
        text: A sentence for the operator of the node.
        is_end: Whether the training has ended, so that the node leaves.
    """

    text: str
    is_end: bool = False


@dataclass(frozen=True)
class Work:
    """What a device computed in a round, beside its reply.

    Attributes:
        computed: The number of samples that it computed gradients on in its local steps.
        step_seconds: Seconds of one local step.
        seconds: Seconds of all that it computed.
    """

    computed: int
    step_seconds: float
    seconds: float


@dataclass(frozen=True, eq=False)
class TrainOrder:
    """What a server sends to a device for a round.

    Attributes:
        training: A random word that identifies the training, so that a device uses no state of
            another training.
        nonce: A random word that the reply repeats, so that it answers this order and no other.
        order: The order itself.
    """

    training: str
    nonce: str
    order: Order


@dataclass(frozen=True, eq=False)
class TrainReply:
    """What a device sends back after a round.

    Attributes:
        nonce: The nonce of the order that this answers.
        round_index: The round of that order.
        reply: The local model and what was measured. Its state is empty: a device keeps its own.
        work: The amount of the device's work, and how long it took.
    """

    nonce: str
    round_index: int
    reply: Reply
    work: Work


def train_reply(received: TrainOrder, reply: Reply, work: Work) -> TrainReply:
    """Return the answer of a device to an order, without the state that stays with it."""
    sent = replace(reply, state=ClientState())
    return TrainReply(received.nonce, received.order.round_index, sent, work)


def to_content(record: TrainOrder | TrainReply | Introduction | Notice) -> RecordDict:
    """Return the content of a message that holds a record.

    Example:
        >>> met = Introduction("ward", samples=40, samples_per_second=90.0, seconds=0.1)
        >>> from_content(to_content(met), Introduction) == met
        True
    """
    return pack(to_bytes(record))


def from_content(content: RecordDict, kind: type[Record]) -> Record:
    """Return the record in a message.

    Raises:
        Malformed: The message holds something else; the text says what.
    """
    try:
        return from_bytes(unpack(content), kind)
    except ValueError as error:
        raise Malformed(f"the message cannot be read: {error}") from None
