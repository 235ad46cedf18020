"""How a node gets orders and sends replies: as whole messages, or part by part.

Our server takes and hands out whole messages, see ``whole_messages.py``. Large ones, and all of
them if the server is a stock SuperLink, go part by part, as Flower's protocol has it.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import httpx
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse, PushMessagesRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.recorddict_pb2 import BytesList
from flwr.supercore.inflatable.inflatable_object import (
    InflatableObject,
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    inflate_object_from_contents,
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supernode.fleet_http_client import FleetHttpClient

from dynamite_fl.flower.whole_messages import ALIVE, MOST_BYTES, PULL, PUSH, read_order

Call = Callable[[Callable[[Any], Any], Any], Any]  # calls a method with a request, and repeats it


class Mailbox:
    """The messages of one node.

    Args:
        client: The connection to the server.
        node: The node whose messages these are.
        call: Calls a method of the client with a request, and repeats it if need be.

    Attributes:
        heard_at: When the server last took a request as a sign of life, by the monotonic clock.
        is_waiting: Whether a question for a message is at the server, which then knows that this
            node is alive.
    """

    def __init__(self, client: FleetHttpClient, node: Node, call: Call) -> None:
        self._client, self._node, self._call = client, node, call
        self.heard_at = -math.inf
        self.is_waiting = False
        self._takes_whole = True  # until the server says that it does not

    def receive(self) -> Message | None:
        """Return the next message; None if there is none."""
        self.is_waiting = self._takes_whole
        try:
            answer = self._post(PULL, [])
        finally:
            self.is_waiting = False
        if answer is None:
            response = self._call(self._client.PullMessages, PullMessagesRequest(node=self._node))
            return self._fetch(response) if response.messages_list else None
        if not answer:
            return None
        response, contents = read_order(answer)
        if not contents:
            return self._fetch(response)
        message_id = response.message_object_trees[0].object_id
        return _named(inflate_object_from_contents(message_id, contents), message_id)

    def send(self, reply: Message, seconds: float) -> None:
        """Send a reply that took some seconds to compute."""
        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            announced = PushMessagesRequest(
                node=self._node,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[get_object_tree(reply)],
                clientapp_runtime_list=[seconds],
            )
            objects = get_all_nested_objects(reply)
            contents = [part.deflate() for part in objects.values()]
            if sum(map(len, contents)) <= MOST_BYTES:
                whole = [announced.SerializeToString(), *contents]
                if self._post(PUSH, whole) is not None:
                    return
            self._send_parts(announced, objects)

    def say_alive(self) -> bool:
        """Tell the server that this node is alive; False if the server is a stock one."""
        return self._post(ALIVE, []) is not None

    def _post(self, path: str, parts: list[bytes]) -> list[bytes] | None:
        """Send a request for whole messages, and return the answer.

        It is None if the server does not know such requests.
        """
        if not self._takes_whole:
            return None
        method = partial(
            self._client._unary_unary, path=path, rpc_method=path, response_type=BytesList
        )
        try:
            answer = self._call(lambda request: method(request=request), BytesList(vals=parts))
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise
            self._takes_whole = False
            return None
        self.heard_at = time.monotonic()
        return list(answer.vals)

    def _fetch(self, response: PullMessagesResponse) -> Message:
        """Return a message whose parts have to be fetched one by one."""
        run_id = response.messages_list[0].metadata.run_id
        tree = response.message_object_trees[0]
        message = pull_and_inflate_object_from_tree(
            tree,
            make_pull_object_fn_protobuf(
                partial(self._call, self._client.PullObject), self._node, run_id
            ),
            make_confirm_message_received_fn_protobuf(
                partial(self._call, self._client.ConfirmMessageReceived), self._node, run_id
            ),
            return_type=Message,
        )
        return _named(message, tree.object_id)

    def _send_parts(
        self, announced: PushMessagesRequest, objects: dict[str, InflatableObject]
    ) -> None:
        """Announce a reply, and send its parts one by one."""
        response = self._call(self._client.PushMessages, announced)
        push_objects(
            objects,
            make_push_object_fn_protobuf(
                partial(self._call, self._client.PushObject),
                self._node,
                announced.messages_list[0].metadata.run_id,
                response.session_id,
            ),
            object_ids_to_push=set(response.objects_to_push),
        )


def _named(message: InflatableObject, message_id: str) -> Message:
    """Return a message with its id, which a reply refers to."""
    named = cast(Message, message)
    named.metadata.__dict__["_message_id"] = message_id
    return named
