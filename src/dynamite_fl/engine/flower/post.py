"""Messages to nodes, and what comes back in time."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode

_APP_FAILED = (ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.LOAD_CLIENT_APP_EXCEPTION)
_POLL = 0.005  # seconds between looks for replies


class Grid(Protocol):
    """As much of Flower's Grid as is needed here."""

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that are connected."""
        ...

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages; their ids, in the same order."""
        ...

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Those replies to these messages that have come."""
        ...


@dataclass(frozen=True)
class Letter:
    """What to send to a node."""

    node: int
    content: RecordDict


@dataclass(frozen=True)
class Arrival:
    """What came back from a node, and how many seconds after it was asked."""

    message: Message
    seconds: float

    @property
    def fault(self) -> str | None:
        """Why there is nothing in it; None if there is."""
        if self.message.has_error():
            return f"error {self.message.error.code}: {self.message.error.reason}"
        return None

    @property
    def alive(self) -> bool:
        """Whether the node itself has answered, if only to say that its app failed."""
        return not self.message.has_error() or self.message.error.code in _APP_FAILED


@dataclass
class Post:
    """Sends and receives over a Grid; who replies too late, is not heard."""

    grid: Grid
    _late: set[str] = field(default_factory=set)

    def send(
        self, letters: Sequence[Letter], kind: str, group: str, seconds: float
    ) -> dict[str, int]:
        """Send letters that are worth reading for some seconds; their ids, and to whom."""
        messages = [
            Message(
                content=letter.content,
                dst_node_id=letter.node,
                message_type=kind,
                ttl=seconds,
                group_id=group,
            )
            for letter in letters
        ]
        ids = self.grid.push_messages(messages) if messages else []
        nodes = [letter.node for letter in letters]
        return {each: node for each, node in zip(ids, nodes, strict=True) if each}

    def take(self, message_id: str) -> Message | None:
        """The reply to a message, if it has come."""
        return next(iter(self.grid.pull_messages([message_id])), None)

    def ask(
        self, letters: Sequence[Letter], kind: str, group: str, timeout: float
    ) -> dict[int, Arrival]:
        """Send letters and wait for replies, at most so long; what came, by node.

        Replies are looked for one at a time, so that each has a time of arrival of its own.
        """
        self._drop_late()
        began = time.monotonic()
        waiting = self.send(letters, kind, group, timeout)
        arrived: dict[int, Arrival] = {}
        while waiting:
            for message_id in list(waiting):
                message = self.take(message_id)
                if message is not None:
                    node = waiting.pop(message_id)
                    arrived[node] = Arrival(message, time.monotonic() - began)
            left = began + timeout - time.monotonic()
            if left <= 0:
                break
            if waiting:
                time.sleep(min(_POLL, left))
        self._late |= set(waiting)
        return arrived

    def _drop_late(self) -> None:
        """Take what came too late out of the way."""
        self._late = {each for each in self._late if self.take(each) is None}
