"""A node that stays: it runs a ClientApp in its own process, round after round.

A stock SuperNode starts a new process for every message, which imports torch anew. This one
speaks the same language to the same SuperLink; it takes messages, and never an app, from the
network. It is no public API of flwr that it uses: the version is pinned.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node as NodeRecord
from flwr.supercore.inflatable.inflatable_object import (
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
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

App = Callable[[Message, Context], Message]  # as a ClientApp is one

_log = logging.getLogger(__name__)
_HEARTBEAT = 10.0  # seconds; a node that was silent for twice as long is taken for gone
_SHORTEST_POLL, _LONGEST_POLL = 0.02, 0.25  # seconds between looks for a message
_POLL = 0.05  # of the time that was waited for it, so that it is found that much later at most
_SHORTEST_BREAK, _LONGEST_BREAK = 0.5, 10.0  # seconds before the next try to connect
_SECONDS_WITHOUT_SERVER = 15.0  # that a connection is kept for
_SECONDS_TO_RETRY = 0.2


@dataclass(frozen=True)
class Node:
    """How to connect, and as whom.

    Attributes:
        server: Address and port, as in ``training.example.org:9092``.
        config: The node's configuration: its ``name``, its ``state`` folder, and whatever else
            the ClientApp looks for.
        ca: The certificate by which the server is known; None without TLS.
        key: This node's private key, as OpenSSH writes it; None without TLS.
    """

    server: str
    config: dict[str, Any]
    ca: Path | None = None
    key: Path | None = None
    leave: threading.Event = field(default_factory=threading.Event)

    def run(self, app: App) -> None:
        """Take part until ``leave`` is set; connect again whenever the connection is lost."""
        keys = self._keys()
        pause = _SHORTEST_BREAK
        while not self.leave.is_set():
            began = time.monotonic()
            try:
                self._session(app, keys)
            except (httpx.HTTPError, OSError, RuntimeError, ValueError) as error:
                _log.warning("not connected to %s: %s", self.server, _reason(error))
            if time.monotonic() - began > _LONGEST_BREAK:
                pause = _SHORTEST_BREAK
            self.leave.wait(pause * random.uniform(0.7, 1.3))  # noqa: S311  no secret
            pause = min(2 * pause, _LONGEST_BREAK)

    def _keys(self) -> tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]:
        if self.key is None:
            pair: tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]
            pair = generate_key_pairs()
            return pair
        private = load_ssh_private_key(self.key.read_bytes(), password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{self.key} is no key of a node: make one with dynamite keys")
        return private, private.public_key()

    def _session(self, app: App, keys: tuple[Any, Any]) -> None:
        """Connect, take part, and say goodbye."""
        with FleetHttpClient.from_server_address(
            self.server,
            self.ca is None,
            None if self.ca is None else self.ca.read_bytes(),
            [RuntimeVersionHttpInterceptor(component_name="SuperNode"), _signed(keys)],
        ) as client:
            public = public_key_to_bytes(keys[1])
            if self.key is None:
                client.RegisterNode(RegisterNodeFleetRequest(public_key=public))
            activated = client.ActivateNode(
                ActivateNodeRequest(public_key=public, heartbeat_interval=_HEARTBEAT)
            )
            _log.info("connected to %s", self.server)
            connection = _Connection(client, activated.node_id, self.config, self.leave)
            beating = threading.Thread(target=connection.beat, daemon=True)
            beating.start()
            try:
                connection.take_part(app)
            finally:
                connection.over.set()
                beating.join()
                connection.say_goodbye()


def _signed(keys: tuple[Any, Any]) -> NodeAuthHttpInterceptor:
    return NodeAuthHttpInterceptor(*keys)


def _reason(error: Exception) -> str:
    """What a server said of why it refused, or what went wrong."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"{error.response.status_code} {error.response.text[:300]}"
    return str(error) or type(error).__name__


class _Connection:
    """A node that the server knows, for as long as it does."""

    def __init__(
        self,
        client: FleetHttpClient,
        node_id: int,
        config: dict[str, Any],
        leave: threading.Event,
    ) -> None:
        self.over = threading.Event()
        self._client = client
        self._node = NodeRecord(node_id=node_id)
        self._config = config
        self._leave = leave

    def beat(self) -> None:
        """Tell the server now and then that this node is alive."""
        request = SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=_HEARTBEAT)
        while not self.over.wait(_HEARTBEAT / 2):
            try:
                if not self._client.SendNodeHeartbeat(request).success:
                    self.over.set()
            except httpx.TransportError:
                continue
            except (httpx.HTTPError, ValueError):
                self.over.set()

    def take_part(self, app: App) -> None:
        """Answer messages until it is over or time to leave."""
        idle = time.monotonic()
        while not self.over.is_set() and not self._leave.is_set():
            message = self._receive()
            if message is None:
                pause = _POLL * (time.monotonic() - idle)
                self._leave.wait(min(max(pause, _SHORTEST_POLL), _LONGEST_POLL))
                continue
            began = time.monotonic()
            reply = self._reply(app, message)
            self._send(reply, time.monotonic() - began)
            idle = time.monotonic()

    def say_goodbye(self) -> None:
        """Let the server know at once that this node has left."""
        try:
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))
        except (httpx.HTTPError, RuntimeError, ValueError):
            _log.info("the server could not be told that this node leaves")

    def _call(self, method: Callable[[Any], Any], request: Any) -> Any:
        """What the server answers; tried again for a while if it is out of reach."""
        until = time.monotonic() + _SECONDS_WITHOUT_SERVER
        while True:
            try:
                return method(request)
            except httpx.TransportError as error:
                if self.over.is_set() or self._leave.is_set() or time.monotonic() > until:
                    raise
                _log.info("trying again: %s", _reason(error))
                self._leave.wait(_SECONDS_TO_RETRY)

    def _receive(self) -> Message | None:
        """The next message, if there is one."""
        response = self._call(self._client.PullMessages, PullMessagesRequest(node=self._node))
        if not response.messages_list:
            return None
        run_id = response.messages_list[0].metadata.run_id
        tree = response.message_object_trees[0]
        message: Message = pull_and_inflate_object_from_tree(
            tree,
            make_pull_object_fn_protobuf(
                partial(self._call, self._client.PullObject), self._node, run_id
            ),
            make_confirm_message_received_fn_protobuf(
                partial(self._call, self._client.ConfirmMessageReceived), self._node, run_id
            ),
            return_type=Message,
        )
        message.metadata.__dict__["_message_id"] = tree.object_id
        return message

    def _reply(self, app: App, message: Message) -> Message:
        """What the app answers; that it failed, if it did."""
        run_id = message.metadata.run_id
        TaskIdentity.task_id, TaskIdentity.run_id = run_id, run_id
        TaskIdentity.node_id = self._node.node_id
        context = Context(
            run_id=run_id,
            node_id=self._node.node_id,
            node_config=self._config,
            state=RecordDict(),
            run_config={},
            series_id=run_id,
        )
        try:
            return app(message, context)
        except Exception as error:
            _log.warning("the round failed", exc_info=True)
            code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            return Message(
                Error(code=code, reason=f"{type(error).__name__}: {error}"), reply_to=message
            )

    def _send(self, reply: Message, seconds: float) -> None:
        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            response = self._call(
                self._client.PushMessages,
                PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(remove_content_from_message(reply))],
                    message_object_trees=[get_object_tree(reply)],
                    clientapp_runtime_list=[seconds],
                ),
            )
            push_objects(
                get_all_nested_objects(reply),
                make_push_object_fn_protobuf(
                    partial(self._call, self._client.PushObject),
                    self._node,
                    reply.metadata.run_id,
                    response.session_id,
                ),
                object_ids_to_push=set(response.objects_to_push),
            )
