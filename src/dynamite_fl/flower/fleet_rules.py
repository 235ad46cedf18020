"""Rules for the requests of known nodes, and the removal of what nobody needs any more.

Flower's API for nodes lets a node send messages in the server's name and to other nodes, of any
size, and keeps what was begun and never finished. Here a node may do no more than answer the orders
that it was sent, within the size that the model needs.
"""

from collections.abc import Iterable
from threading import Lock
from typing import Any

from fastapi import HTTPException, Request
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.supercore.date import now

MOST_REPLY_BYTES = 2**30  # until the size of the model is known

_OVERHEAD_BYTES = 2**20  # of a reply, beside the numbers of models and gradients
_MODELS_IN_REPLY = 2  # a model, and a gradient at most
_MOST_PARTS = 16  # of a reply, beside those that a large model is cut into
_BYTES_PER_PART = 2**20  # a fourth of what our nodes send, to be generous to others


class FleetRules:
    """The rules for one SuperLink; it is called with each request of Flower's protocol.

    Args:
        state: The state of the SuperLink.

    Attributes:
        most_reply_bytes: The largest size of a reply.
    """

    def __init__(self, state: Any) -> None:
        self.most_reply_bytes = MOST_REPLY_BYTES
        self._state = state
        self._lock = Lock()
        self._received: dict[int, int] = {}  # bytes of each node's current reply

    def expect_models_of(self, model_bytes: int) -> None:
        """Limit replies to what a model of this size needs."""
        self.most_reply_bytes = _MODELS_IN_REPLY * model_bytes + _OVERHEAD_BYTES

    def __call__(self, request: Request) -> None:
        """Refuse a request that breaks a rule, before it is handled.

        Raises:
            HTTPException: The request is refused; the text says why.
        """
        self.check(getattr(request.state, "protobuf_request", None))

    def check(self, content: object) -> None:
        """Refuse the content of a request that breaks a rule.

        Raises:
            HTTPException: The request is refused; the text says why.
        """
        if isinstance(content, PushMessagesRequest):
            self._check_reply(content)
            with self._lock:
                self._received[content.node.node_id] = 0
        elif isinstance(content, PushObjectRequest):
            self._count(content.node.node_id, len(content.object_content))

    def _check_reply(self, request: PushMessagesRequest) -> None:
        if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
            raise _refusal("a node sends one reply at a time")
        metadata = request.messages_list[0].metadata
        if metadata.src_node_id != request.node.node_id:
            raise _refusal("a node sends no messages in the name of others")
        if metadata.dst_node_id != SUPERLINK_NODE_ID or not metadata.reply_to_message_id:
            raise _refusal("a node sends nothing but replies to the server")
        most = _MOST_PARTS + self.most_reply_bytes // _BYTES_PER_PART
        parts, waiting = 0, [request.message_object_trees[0]]
        while waiting:
            parts += 1
            waiting.extend(waiting.pop().children)
            if parts > most:
                raise _refusal(f"a reply has at most {most} parts", status=413)

    def _count(self, node_id: int, size: int) -> None:
        with self._lock:
            total = self._received.get(node_id, 0) + size
            if total > self.most_reply_bytes:
                raise _refusal(
                    f"a reply for this model has at most {self.most_reply_bytes:,} bytes", 413
                )
            self._received[node_id] = total

    def forget(self, message_ids: Iterable[str]) -> None:
        """Remove orders and what came of their replies, and all uploads that have expired."""
        state = self._state
        for message_id in set(message_ids):
            with state.lock:
                reply_id = state.message_ins_id_to_message_res_id.get(message_id)
                state.delete_messages({message_id})
            for object_id in (message_id, reply_id):
                if object_id is not None:
                    state.object_store.delete(object_id)
        with state._lock_object_push_sessions:
            over = [
                session_id
                for session_id, session in state._object_push_sessions.items()
                if session.expires_at <= now() or not self._has_messages(session.root_object_ids)
            ]
        for session_id in over:
            state._cleanup_push_session(session_id, cleanup_messages=True)

    def _has_messages(self, object_ids: Iterable[str]) -> bool:
        """Return whether the messages of an upload are still known."""
        state = self._state
        return any(
            object_id in state.message_res_store or object_id in state.message_ins_store
            for object_id in object_ids
        )


def _refusal(reason: str, status: int = 403) -> HTTPException:
    return HTTPException(status, f"refused: {reason}")
