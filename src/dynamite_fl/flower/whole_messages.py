"""Whole messages in one request each, between our nodes and our server.

By Flower's protocol, a node needs nine requests for an order and its reply: each part of a message
is fetched or sent on its own, and receipt is confirmed. With many nodes, and with small models,
these requests are most of a round. Here a node gets an order by one request and sends its reply by
another, unless they are large. Each of these requests is also a sign of life, so that a node has to
send others only while it computes. What is checked and kept is the same, and stock nodes use
Flower's protocol as before.
"""

from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import HTTPException
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse, PushMessagesRequest
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.node_pb2 import Node
from flwr.proto.recorddict_pb2 import BytesList
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, NodeStatus
from flwr.supercore.error import FlowerError
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.superlink.servicer.fleet import fleet_handlers
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dynamite_fl.flower.auth import MAX_REQUEST_BYTES, is_signed_by
from dynamite_fl.flower.connections import Address
from dynamite_fl.flower.fleet_rules import FleetRules
from dynamite_fl.flower.waiting_room import WaitingRoom

PULL, PUSH, ALIVE = "/v1/dynamite/pull", "/v1/dynamite/push", "/v1/dynamite/alive"
MOST_BYTES = MAX_REQUEST_BYTES // 2  # of a message that is sent as a whole


class WholeMessages:
    """A part of the server that hands out orders and takes replies.

    It stands behind ``AuthMiddleware``, and hands all other requests on.

    Args:
        app: The application that handles other requests.
        state: The state of the SuperLink.
        rules: What nodes may send.
        waiting_room: Where nodes wait for an order.
        trust: Called with the address of a sender and its public key, whose signature is verified.
        is_verified: Whether signatures were verified before.
    """

    def __init__(
        self,
        app: ASGIApp,
        state: Any,
        rules: FleetRules,
        waiting_room: WaitingRoom,
        trust: Callable[[Address, bytes], None],
        *,
        is_verified: bool,
    ) -> None:
        self._app, self._state, self._rules = app, state, rules
        self._waiting_room, self._trust = waiting_room, trust
        self._is_verified = is_verified

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["path"] not in (PULL, PUSH, ALIVE):
            await self._app(scope, receive, send)
            return
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        body = await request.body()
        try:
            key = b64decode(request.headers.get(FLEET_HTTP_PUBLIC_KEY_HEADER, ""))
            node = await run_in_threadpool(self._sender, request, key)
            if request.client is not None:
                self._trust((request.client.host, request.client.port), key)
            if request.url.path == PULL:
                await self._waiting_room.wait(node.node_id)
                parts = await run_in_threadpool(self._pull, node)
            elif request.url.path == ALIVE:
                parts = []
            else:
                parts = await run_in_threadpool(self._push, node, body)
        except HTTPException as error:
            return PlainTextResponse(f"{error.detail}\n", error.status_code)
        except (FlowerError, DecodeError, ValueError, IndexError) as error:
            return PlainTextResponse(f"refused: {error}\n", 400)
        return Response(BytesList(vals=parts).SerializeToString())

    def _sender(self, request: Request, key: bytes) -> Node:
        """Return the node whose key has signed a request, and note that it is alive."""
        if self._is_verified or is_signed_by([key], request.headers):
            node_id = self._state.get_node_id_by_public_key(key)
            if node_id is not None:
                state, known = self._state, self._state.nodes[node_id]
                if known.status == NodeStatus.REGISTERED:  # it was connected to an earlier server
                    raise HTTPException(401, "refused: this node has to connect again")
                state.acknowledge_node_heartbeat(node_id, known.heartbeat_interval)
                return Node(node_id=node_id)
        raise HTTPException(401, "refused: the server does not know the key of this node")

    def _pull(self, node: Node) -> list[bytes]:
        """Return the next order and its parts; nothing if there is none.

        The parts are left out if they are large, and the node has to fetch them.
        """
        state, store = self._state, self._state.object_store
        found = fleet_handlers.pull_messages(PullMessagesRequest(node=node), state, store)
        if not found.messages_list:
            return []
        tree, run_id = found.message_object_trees[0], found.messages_list[0].metadata.run_id
        contents: list[bytes] = []
        for part in iterate_object_tree(tree):
            pulled = fleet_handlers.pull_object(
                PullObjectRequest(node=node, run_id=run_id, object_id=part.object_id), state
            )
            contents.append(pulled.object_content)
            if not pulled.object_available or sum(map(len, contents)) > MOST_BYTES:
                return [found.SerializeToString()]
        fleet_handlers.confirm_message_received(
            ConfirmMessageReceivedRequest(
                node=node, run_id=run_id, message_object_id=tree.object_id
            ),
            state,
            store,
        )
        return [found.SerializeToString(), *contents]

    def _push(self, node: Node, body: bytes) -> list[bytes]:
        """Take a reply and its parts, which come in the order of the reply's tree."""
        parts = BytesList.FromString(body).vals
        announced, contents = PushMessagesRequest.FromString(parts[0]), parts[1:]
        if announced.node.node_id != node.node_id:
            raise HTTPException(403, "refused: a node sends no messages in the name of others")
        self._rules.check(announced)
        answer = fleet_handlers.push_messages(announced, self._state)
        run_id = announced.messages_list[0].metadata.run_id
        missing = set(answer.objects_to_push)
        tree = announced.message_object_trees[0]
        for object_id, content in zip(part_ids(tree), contents, strict=True):
            if object_id not in missing:
                continue
            pushed = PushObjectRequest(
                node=node,
                run_id=run_id,
                session_id=answer.session_id,
                object_id=object_id,
                object_content=content,
            )
            self._rules.check(pushed)
            fleet_handlers.push_object(pushed, self._state)
        return []


def part_ids(tree: Any) -> list[str]:
    """Return the ids of a message's parts in the order in which they are sent."""
    return list(dict.fromkeys(part.object_id for part in iterate_object_tree(tree)))


def read_order(parts: Sequence[bytes]) -> tuple[PullMessagesResponse, dict[str, bytes]]:
    """Return what a server handed out: an order and its parts by id, none if they are large."""
    order = PullMessagesResponse.FromString(parts[0])
    ids = [part.object_id for part in iterate_object_tree(order.message_object_trees[0])]
    return order, dict(zip(ids, parts[1:], strict=True)) if len(parts) > 1 else {}
