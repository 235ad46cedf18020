"""Flower's SuperLink in this process: nodes connect to it, and a Grid reaches them.

Only the API for nodes is on the network. A stock SuperLink also lets whoever reaches its port start
apps, read runs and take tasks; here nobody can. The round loop uses the state of the SuperLink
directly. These parts of flwr are not public, so its versions are limited.
"""

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any, Self, cast

import uvicorn
from fastapi import Depends, FastAPI
from flwr.app import Message
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, SUPERLINK_NODE_ID
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import http_error_translator
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.config_loader import get_objectstore_linkstate_factories
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import HttpGrid
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router as fleet_router
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware

from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower import stock_bundle as stock
from dynamite_fl.flower.auth import AuthMiddleware
from dynamite_fl.flower.connections import connections_that_fit
from dynamite_fl.flower.fleet_rules import FleetRules
from dynamite_fl.flower.in_process import InProcessRuntime, find_messages_quickly
from dynamite_fl.flower.keys import ServerKeys
from dynamite_fl.flower.presence import Presence
from dynamite_fl.flower.waiting_room import WaitingRoom
from dynamite_fl.flower.web_server import CountedProtocol, WebServer
from dynamite_fl.flower.whole_messages import WholeMessages

_SECONDS_TO_START = 20.0
_SECONDS_TO_STOP = 5.0
_BACKLOG = 1024  # connections that wait to be accepted, as when all nodes come at once
_SECONDS_IDLE = 300  # before a known node's connection is closed, so that it need not shake hands


class SuperLink:
    """A SuperLink that serves one training. Use it as a context manager.

    Args:
        host: The address to listen at.
        port: The port to listen at; 0 for any free port.
        keys: The server's certificate and the nodes' keys; None to serve this machine only.

    Attributes:
        port: The port at which it listens.
        grid: The Grid that reaches the nodes.
        registered: The name that belongs to each node's key, by node id; empty without keys.
        connections: The open connections.
        rules: The limits of what nodes may send.

    Raises:
        InvalidInput: Without keys, the host is not this machine; or the port cannot be used.
    """

    def __init__(self, host: str, port: int, keys: ServerKeys | None = None) -> None:
        if keys is None and not _is_loopback(host):
            raise InvalidInput(
                f"without keys, the server can only listen at this machine's own address, not at "
                f"{host}: make keys with `dynamite keys` and pass them with --keys"
            )
        logging.getLogger("flwr").setLevel(logging.CRITICAL)  # it reports every stranger
        self._keys = keys
        factories = get_objectstore_linkstate_factories(
            FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager()
        )
        self._states = factories[1]
        self._state: Any = self._states.state()
        find_messages_quickly(self._state)
        node_keys = {} if keys is None else keys.node_keys
        self.registered: dict[int, str] = {
            self._state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, 0): name
            for name, key in node_keys.items()
        }
        self.rules, self._waiting_room = FleetRules(self._state), WaitingRoom(self._state)
        self.connections = connections_that_fit()
        self._presence = Presence(self._state, self.connections)
        self.grid, self._task = self._start_run()
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise InvalidInput(
                f"the server cannot listen at {host}, port {port}: {error.strerror}"
            ) from None
        self.port: int = self._socket.getsockname()[1]
        self._server = WebServer(self._config(), self.connections)
        self._thread = threading.Thread(target=self._serve, name="superlink", daemon=True)
        self._heartbeat = HeartbeatSender(
            lambda: bool(self._state.acknowledge_task_heartbeat(self._task.task_id))
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self._heartbeat.start()
        for _ in range(int(_SECONDS_TO_START / 0.02)):
            if self._server.started:
                return self
            self._thread.join(0.02)
            if not self._thread.is_alive():
                break
        self.__exit__()
        raise InvalidInput("the server for nodes did not start: check the certificate and its key")

    def __exit__(self, *_: object) -> None:
        self._heartbeat.stop()
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(_SECONDS_TO_STOP)
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _config(self) -> uvicorn.Config:
        """Return the settings of an HTTP server with the API for nodes and no other."""
        keys = self._keys
        app = FastAPI(
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            middleware=[
                Middleware(
                    AuthMiddleware,
                    known_keys=None if keys is None else set(keys.node_keys.values()),
                    trust=self.connections.trust,
                ),
                Middleware(
                    WholeMessages,
                    state=self._state,
                    rules=self.rules,
                    waiting_room=self._waiting_room,
                    trust=self.connections.trust,
                    is_verified=keys is not None,
                ),
                Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
                Middleware(ProtobufTranslationMiddleware),
                Middleware(NodeAuthMiddleware),
            ],
        )
        app.state.linkstate_factory = self._states
        app.state.enable_supernode_auth = keys is not None
        app.include_router(
            fleet_router, dependencies=[Depends(self.rules), Depends(self._waiting_room)]
        )
        return uvicorn.Config(
            app,
            http=CountedProtocol,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            timeout_keep_alive=_SECONDS_IDLE,
            ssl_certfile=None if keys is None else str(keys.certificate),
            ssl_keyfile=None if keys is None else str(keys.private_key),
        )

    def _start_run(self) -> "tuple[ForgettingGrid, Any]":
        """Start a run, as a ServerApp would have one, and return its Grid and its task."""
        state = self._state
        run_id = state.create_run(
            fab_id=stock.ID,
            fab_version=stock.VERSION,
            fab_hash=state.store_fab(stock.stock_bundle()),
            override_config={},
            federation_id=NOOP_FEDERATION_ID,
            federation_config=None,
            flwr_aid=NOOP_FLWR_AID,
            primary_task_type=TaskType.SERVER_APP,
        )
        (run,) = state.get_run_info(run_ids=[run_id])
        state.claim_task(run.primary_task_id)
        state.activate_task(run.primary_task_id)
        (task,) = state.get_tasks(task_ids=[run.primary_task_id])
        TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, run_id
        TaskIdentity.node_id = SUPERLINK_NODE_ID
        grid = ForgettingGrid(token="in-process")  # noqa: S106  it never leaves the process
        grid.refresh = self._presence.refresh
        runtime = InProcessRuntime(state, task, grid.refresh)
        grid.forget, grid.on_push = self.rules.forget, self._waiting_room.call
        grid.arrived = runtime.arrived
        grid.set_run(run)
        grid._client = cast(Any, runtime)
        return grid, task


class ForgettingGrid(HttpGrid):
    """A Grid that can remove messages that nobody waits for.

    Attributes:
        forget: Removes the messages with these ids, and what came of their replies.
        on_push: Called with the ids of nodes for which there are messages now.
        arrived: Returns which of the messages with these ids have a reply, or never get one.
        refresh: Brings up to date which nodes are there.
    """

    forget: Callable[[Iterable[str]], None]
    on_push: Callable[[Iterable[int]], None]
    arrived: Callable[[Iterable[str]], list[str]]
    refresh: Callable[[], None]

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of the nodes that are connected."""
        self.refresh()
        return super().get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages, and wake the nodes that wait for them."""
        sent = list(messages)
        message_ids = super().push_messages(sent)
        self.on_push(message.metadata.dst_node_id for message in sent)
        return message_ids


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
