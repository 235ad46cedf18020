"""Flower's state in this process, called directly and without looking through all messages.

For each question whether there is a message or a reply, Flower looks at all messages of all nodes,
so that a round of n nodes takes a time in proportion to n squared. Here it looks at those that are
asked for.
"""

from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.object_store import NoObjectInStoreError
from flwr.superlink.servicer.runtime import runtime_handlers


def find_messages_quickly(state: Any) -> None:
    """Let a state check only the messages for the node that asks."""

    def get_message_ins(
        node_id: int,
        limit: int | None,
        *,
        run_id: int | None = None,  # noqa: ARG001  there is one run only
    ) -> list[Message]:
        if node_id == SUPERLINK_NODE_ID:
            return []  # nobody sends orders to the server
        with state.lock:
            waiting = _undelivered(state, node_id)
            state._check_stored_messages({message.metadata.message_id for message in waiting})
            found = _undelivered(state, node_id)[:limit]  # without those that have expired
            for message in found:
                message.metadata.delivered_at = now().isoformat()
        return found

    state.get_message_ins = get_message_ins


def has_message(state: Any, node_id: int) -> bool:
    """Tell whether there is a message for a node that it has not fetched."""
    with state.lock:
        return bool(_undelivered(state, node_id))


def _undelivered(state: Any, node_id: int) -> list[Message]:
    return [
        message
        for message in state.message_ins_store.values()
        if message.metadata.dst_node_id == node_id and message.metadata.delivered_at == ""
    ]


class InProcessRuntime:
    """Flower's Runtime API for a Grid, called directly instead of over a network.

    Args:
        state: The state of the SuperLink.
        task: The task in whose name the Grid sends messages.
        refresh: Brings up to date which nodes are there.
    """

    def __init__(self, state: Any, task: Any, refresh: Callable[[], None]) -> None:
        self._state, self._task, self._refresh = state, task, refresh

    def __getattr__(self, name: str) -> Any:
        function = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
        handler = getattr(runtime_handlers, function)
        return lambda request: handler(request, self._state, self._task)

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse:  # noqa: N802
        """Return the replies that have arrived completely. The Grid goes on to wait for others."""
        return runtime_handlers.pull_messages(
            PullAppMessagesRequest(message_ids=self.arrived(request.message_ids)),
            self._state,
            self._task,
        )

    def arrived(self, message_ids: Iterable[str]) -> list[str]:
        """Return the messages that have a reply, or an error of Flower because none will come.

        Args:
            message_ids: The ids of messages to nodes.
        """
        self._refresh()
        seconds = now().timestamp()
        with self._state.lock:
            return [each for each in message_ids if self._is_settled(each, seconds)]

    def _is_settled(self, message_id: str, seconds: float) -> bool:
        state = self._state
        reply_id = state.message_ins_id_to_message_res_id.get(message_id)
        if reply_id is not None:
            return self._is_complete(reply_id)
        message = state.message_ins_store.get(message_id)
        if message is None:
            return True
        sent = message.metadata
        node = state.nodes.get(sent.dst_node_id)
        is_gone = node is None or node.online_until <= seconds
        return is_gone or bool(sent.created_at + sent.ttl <= seconds)

    def _is_complete(self, reply_id: str) -> bool:
        """Tell whether no part of a reply is missing."""
        store = self._state.object_store
        try:
            tree: Iterable[Any] = iterate_object_tree(store.get_object_tree(reply_id))
            return all(store.get(part.object_id) for part in tree)
        except NoObjectInStoreError:  # it expired before all of it had arrived
            return False
