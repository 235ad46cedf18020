"""A persistent node: it runs a ClientApp in its own process, round after round.

A stock SuperNode starts a new process for every message, which imports torch each time. This node
uses the same protocol with the same SuperLink, but takes only messages from the network, never an
app. The parts of flwr that it uses are not public, so its versions are limited.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node as NodeRecord
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from dynamite_fl.flower.key_checks import read_private_key
from dynamite_fl.flower.keys import NodeKeys
from dynamite_fl.flower.mailbox import Mailbox
from dynamite_fl.flower.messages import NOTICE, Notice, from_content
from dynamite_fl.flower.plain_text import plain
from dynamite_fl.flower.wire import Malformed

App = Callable[[Message, Context], Message]  # a ClientApp, or a function in its place

_log = logging.getLogger(__name__)
_identity = threading.Lock()
_HEARTBEAT_SECONDS = 10.0  # the server drops a node after twice this time without a heartbeat
_HEARTBEAT_PAUSE = 4.0  # between two of them; an HTTP connection that is idle for 5 s is closed
_WAIT_SECONDS = 15.0  # a question for a message is answered within 10 s
_MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.02, 0.25  # between two checks for a message
_POLL_SHARE = 0.05  # of the time waited so far, so a message is found at most 5 % later
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.5, 10.0  # before the next attempt to connect
_MAX_SECONDS_UNREACHABLE = 60.0  # before a connection to the server is given up
_RETRY_SECONDS = 0.2  # before a failed request is repeated


@dataclass(frozen=True)
class Node:
    """A node that takes part in a training on a server.

    Attributes:
        server: The server's address and port, such as ``training.example.org:9092``.
        config: The node's configuration, which the ClientApp reads: ``name``, ``state`` and so on.
        keys: The node's keys; None to connect to a server on this machine without TLS.
        leave: An event that makes the node leave after the round that it is in. It is set when
            the server says that the training has ended.
    """

    server: str
    config: dict[str, Any]
    keys: NodeKeys | None = None
    leave: threading.Event = field(default_factory=threading.Event)

    def run(self, app: App) -> None:
        """Take part until the training ends or ``leave`` is set; reconnect if necessary."""
        key_pair = self._key_pair()
        pause = _MIN_PAUSE_SECONDS
        while not self.leave.is_set():
            began = time.monotonic()
            try:
                self._session(app, key_pair)
            except (httpx.HTTPError, OSError, RuntimeError, ValueError) as error:  # as flwr raises
                _log.warning(
                    "This node is not connected to %s, and tries again: %s",
                    self.server,
                    _reason(error),
                )
            if time.monotonic() - began > _MAX_PAUSE_SECONDS:
                pause = _MIN_PAUSE_SECONDS
            self.leave.wait(pause * random.uniform(0.7, 1.3))  # noqa: S311  not a secret
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def _key_pair(self) -> tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]:
        """Return the node's private and public key; new ones if it has none."""
        if self.keys is None:
            pair: tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]
            pair = generate_key_pairs()
            return pair
        private = read_private_key(self.keys.private_key)
        return private, private.public_key()

    def _session(self, app: App, key_pair: tuple[Any, Any]) -> None:
        """Connect, take part until the connection is over, and disconnect."""
        with FleetHttpClient.from_server_address(
            self.server,
            self.keys is None,
            None if self.keys is None else self.keys.ca.read_bytes(),
            [
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(*key_pair),
            ],
        ) as client:
            client._client.follow_redirects = False  # the server sends this node nowhere else
            public = public_key_to_bytes(key_pair[1])
            if self.keys is None:
                client.RegisterNode(RegisterNodeFleetRequest(public_key=public))
            activated = client.ActivateNode(
                ActivateNodeRequest(public_key=public, heartbeat_interval=_HEARTBEAT_SECONDS)
            )
            _log.info("This node is connected to %s.", self.server)
            connection = _Connection(client, activated.node_id, self.config, self.leave)
            heartbeats = threading.Thread(target=connection.send_heartbeats, daemon=True)
            heartbeats.start()
            try:
                connection.answer_messages(app)
            finally:
                connection.over.set()
                heartbeats.join()
                connection.disconnect()


def _is_end(message: Message) -> bool:
    """Return whether a message says that the training has ended."""
    if message.metadata.message_type != NOTICE:
        return False
    try:
        return from_content(message.content, Notice).is_end
    except Malformed:
        return False


def _reason(error: Exception) -> str:
    """Return the reason that the server gave, or the text of the error."""
    if isinstance(error, httpx.HTTPStatusError):
        if "Failed to activate SuperNode" in error.response.text:  # Flower says no more
            return "another process is connected with the key of this node, or was 20 s ago"
        return plain(f"{error.response.status_code} {error.response.text}")
    return str(error) or type(error).__name__


class _Connection:
    """A connection of a node to the server, from activation to deactivation."""

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
        self._has_ended = False  # the training, so that the server may be gone
        self._mailbox = Mailbox(client, self._node, self._call)

    def send_heartbeats(self) -> None:
        """Tell the server now and then that this node is alive, while no other request does."""
        request = SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=_HEARTBEAT_SECONDS)
        while not self.over.wait(_HEARTBEAT_PAUSE):
            silent = time.monotonic() - self._mailbox.heard_at
            if silent < (_WAIT_SECONDS if self._mailbox.is_waiting else _HEARTBEAT_PAUSE):
                continue
            try:
                if self._mailbox.say_alive():
                    continue
                if not self._client.SendNodeHeartbeat(request).success:
                    self.over.set()
            except httpx.TransportError:
                continue
            except (httpx.HTTPError, ValueError):
                self.over.set()

    def answer_messages(self, app: App) -> None:
        """Answer messages until the connection is over or the node is to leave."""
        idle_since = time.monotonic()
        while not self.over.is_set() and not self._leave.is_set():
            asked_at = time.monotonic()
            message = self._mailbox.receive()
            if message is None:
                now = time.monotonic()
                if now - asked_at < _MAX_POLL_SECONDS:  # the server did not let it wait
                    pause = _POLL_SHARE * (now - idle_since)
                    self._leave.wait(min(max(pause, _MIN_POLL_SECONDS), _MAX_POLL_SECONDS))
                continue
            began = time.monotonic()
            reply = self._reply(app, message)
            self._mailbox.send(reply, time.monotonic() - began)
            if _is_end(message):
                self._has_ended = True
                self._leave.set()
            idle_since = time.monotonic()

    def disconnect(self) -> None:
        """Tell the server that this node leaves, so that it need not find out by itself."""
        try:
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))
        except (httpx.HTTPError, RuntimeError, ValueError):
            if not self._has_ended:
                _log.info("This node leaves, but could not reach the server to say so.")

    def _call(self, method: Callable[[Any], Any], request: Any) -> Any:
        """Return the server's answer; repeat the request for a while if it is out of reach."""
        give_up_at = time.monotonic() + _MAX_SECONDS_UNREACHABLE
        while True:
            try:
                return method(request)
            except httpx.TransportError as error:
                if self.over.is_set() or self._leave.is_set() or time.monotonic() > give_up_at:
                    raise
                _log.info("The server cannot be reached, and is tried again: %s", _reason(error))
                self._leave.wait(_RETRY_SECONDS)

    def _reply(self, app: App, message: Message) -> Message:
        """Return the app's reply, or an error message if the app fails.

        Flower has one identity in a process, so nodes that share a process take turns.
        """
        with _identity:
            return self._reply_as_this_node(app, message)

    def _reply_as_this_node(self, app: App, message: Message) -> Message:
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
            _log.warning("The app of this node failed. The server gets the error.", exc_info=True)
            code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            return Message(
                Error(code=code, reason=f"{type(error).__name__}: {error}"), reply_to=message
            )
