"""Requests to nodes over a Flower Grid, and the replies that arrive in time."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import httpx
from flwr.app import Error, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode

from dynamite_fl.flower.plain_text import plain

_APP_FAILED = (ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.LOAD_CLIENT_APP_EXCEPTION)
_POLL_SECONDS = 0.005  # between two checks for replies


class Grid(Protocol):
    """The part of Flower's Grid that this package uses."""

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of the nodes that are connected."""
        ...

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages and return their ids, in the same order."""
        ...

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages that have arrived."""
        ...


@dataclass(frozen=True)
class Request:
    """A message for one node.

    Attributes:
        node_id: The id of the node in Flower.
        content: The content of the message.
    """

    node_id: int
    content: RecordDict


@dataclass(frozen=True)
class Response:
    """The reply of one node.

    Attributes:
        message: The reply, or Flower's error in its place.
        seconds: Seconds from the request to the arrival of the reply.
    """

    message: Message
    seconds: float

    @property
    def error(self) -> str | None:
        """The text of the error that came instead of a reply; None if a reply came."""
        if self.message.has_error():
            return plain(f"error {self.message.error.code}: {self.message.error.reason}")
        return None

    @property
    def is_from_node(self) -> bool:
        """Whether the node itself has answered, even if only to report that its app failed."""
        return not self.message.has_error() or self.message.error.code in _APP_FAILED


@dataclass
class Messenger:
    """Sends requests over a Grid and collects replies; replies that come too late are dropped."""

    grid: Grid
    _overdue: set[str] = field(default_factory=set)

    def send(
        self, requests: Sequence[Request], message_type: str, group: str, seconds_valid: float
    ) -> dict[str, int]:
        """Send requests that nodes may answer for some seconds.

        Returns:
            The node id of every request that was sent, by message id.
        """
        messages = [
            Message(
                content=request.content,
                dst_node_id=request.node_id,
                message_type=message_type,
                ttl=seconds_valid,
                group_id=group,
            )
            for request in requests
        ]
        message_ids = self.grid.push_messages(messages) if messages else []
        node_ids = [request.node_id for request in requests]
        pairs = zip(message_ids, node_ids, strict=True)
        return {message_id: node_id for message_id, node_id in pairs if message_id}

    def ignore_replies(self, message_ids: Iterable[str]) -> None:
        """Discard the replies to these messages when they arrive."""
        self._overdue |= set(message_ids)

    def pull_reply(self, message_id: str) -> Message | None:
        """Return the reply to a message; None if it has not arrived.

        Flower puts the parts of a reply together here, and a node may have sent any bytes. What is
        no message becomes an error of its sender, so that it harms nobody else.
        """
        try:
            reply = next(iter(self.grid.pull_messages([message_id])), None)
            if reply is None or reply.has_content() != reply.has_error():
                return reply
            reason = "it has neither content nor an error"
        except (httpx.HTTPError, OSError):  # the Grid itself cannot be reached
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        self._give_up([message_id])
        return _unreadable(message_id, reason)

    def exchange(
        self,
        requests: Sequence[Request],
        message_type: str,
        group: str,
        timeout: float,
        on_change: Callable[[Collection[int]], None] = lambda _: None,
    ) -> dict[int, Response]:
        """Send requests and wait for the replies, for at most ``timeout`` seconds.

        Replies are pulled one at a time, so that every reply has its own time of arrival.

        Args:
            requests: The requests, at most one for each node.
            message_type: The type of the messages, which selects the function on the node.
            group: The group of the messages.
            timeout: The longest wait, in seconds.
            on_change: Called with the ids of the nodes that have not replied, when the requests
                are sent and whenever replies have come while others are missing.

        Returns:
            The replies that arrived in time, by node id.
        """
        self._drop_overdue()
        began = time.monotonic()
        waiting = self.send(requests, message_type, group, timeout)
        responses: dict[int, Response] = {}
        shown = -1  # the number of replies when on_change was called
        while waiting:
            for message_id in self._settled(waiting):
                message = self.pull_reply(message_id)
                if message is not None:
                    node_id = waiting.pop(message_id)
                    responses[node_id] = Response(message, time.monotonic() - began)
            seconds_left = began + timeout - time.monotonic()
            if seconds_left <= 0:
                break
            if waiting and len(responses) != shown:
                shown = len(responses)
                on_change(waiting.values())
            if waiting:
                time.sleep(min(_POLL_SECONDS, seconds_left))
        self._give_up(waiting)
        return responses

    def _settled(self, message_ids: Iterable[str]) -> list[str]:
        """Return the messages that may have a reply; if the Grid cannot tell, all of them."""
        arrived = getattr(self.grid, "arrived", list)
        settled: list[str] = arrived(message_ids)
        return settled

    def _give_up(self, message_ids: Iterable[str]) -> None:
        """Remove messages that nobody waits for any more; if the Grid cannot, note them."""
        forget = getattr(self.grid, "forget", None)
        if forget is None:
            self._overdue |= set(message_ids)
        else:
            forget(message_ids)

    def _drop_overdue(self) -> None:
        """Discard the replies to earlier requests that arrived too late."""
        self._overdue = {
            message_id for message_id in self._overdue if self.pull_reply(message_id) is None
        }


def _unreadable(message_id: str, reason: str) -> Message:
    """Return an error in the place of a reply that is no message."""
    metadata = Metadata(
        run_id=0,
        message_id="",
        src_node_id=SUPERLINK_NODE_ID,
        dst_node_id=SUPERLINK_NODE_ID,
        reply_to_message_id=message_id,
        group_id="",
        created_at=0.0,
        ttl=0.0,
        message_type="system",
    )
    code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
    return make_message(metadata, error=Error(code=code, reason=f"no message: {reason}"))
