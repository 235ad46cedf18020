"""Flower's SuperLink in this process: nodes connect to it, and a Grid reaches them.

Only the API for nodes is on the network, so that nobody can start an app, read a run or take a
task over it, as a stock SuperLink allows to whoever reaches its port. The round loop uses the
same state directly. This is not a public API of flwr: the version is pinned.
"""

import logging
import socket
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self, cast

import uvicorn
from fastapi import FastAPI
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, SUPERLINK_NODE_ID
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import http_error_translator
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.object_store import NoObjectInStoreError
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.config_loader import get_objectstore_linkstate_factories
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import HttpGrid
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router as fleet_router
from flwr.superlink.servicer.runtime import runtime_handlers
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware

from dynamite_fl.engine.flower import stock
from dynamite_fl.engine.flower.gate import Gate

_SECONDS_TO_START = 20.0
_SECONDS_TO_STOP = 5.0


@dataclass(frozen=True)
class Secrets:
    """What makes a link safe: without it, only this machine is served.

    Attributes:
        certificate: The server's, for its names or addresses; a PEM file.
        key: The certificate's, a PEM file.
        node_keys: The public keys of the nodes that may take part, PEM, by their names.
    """

    certificate: Path
    key: Path
    node_keys: Mapping[str, bytes]


class Link:
    """A SuperLink that serves one training. Use it as a context.

    Args:
        host: The address to listen at.
        port: The port, 0 for a free one.
        secrets: Certificate and node keys; None only for this machine.
    """

    def __init__(self, host: str, port: int, secrets: Secrets | None = None) -> None:
        if secrets is None and not _is_loopback(host):
            raise ValueError(
                f"without certificates and node keys only this machine is served, not {host}: "
                "make them with dynamite keys"
            )
        logging.getLogger("flwr").setLevel(logging.CRITICAL)  # it would tell of every stranger
        self._secrets = secrets
        factories = get_objectstore_linkstate_factories(
            FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager()
        )
        self._states = factories[1]
        self._state: Any = self._states.state()
        known = {} if secrets is None else secrets.node_keys
        self.registered: dict[int, str] = {
            self._state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, 0): name
            for name, key in known.items()
        }
        self.grid, self._task = self._begin()
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ValueError(f"cannot listen at {host}, port {port}: {error.strerror}") from None
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(self._config())
        self._thread = threading.Thread(target=self._serve, name="superlink", daemon=True)
        self._alive = HeartbeatSender(
            lambda: bool(self._state.acknowledge_task_heartbeat(self._task.task_id))
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self._alive.start()
        for _ in range(int(_SECONDS_TO_START / 0.02)):
            if self._server.started:
                return self
            self._thread.join(0.02)
            if not self._thread.is_alive():
                break
        self.__exit__()
        raise ValueError("the server for nodes did not start: look at certificate and key")

    def __exit__(self, *_: object) -> None:
        self._alive.stop()
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(_SECONDS_TO_STOP)
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def _config(self) -> uvicorn.Config:
        secrets = self._secrets
        app = FastAPI(
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            middleware=[
                Middleware(
                    Gate, known=None if secrets is None else set(secrets.node_keys.values())
                ),
                Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
                Middleware(ProtobufTranslationMiddleware),
                Middleware(NodeAuthMiddleware),
            ],
        )
        app.state.linkstate_factory = self._states
        app.state.enable_supernode_auth = secrets is not None
        app.include_router(fleet_router)
        return uvicorn.Config(
            app,
            http="h11",  # it bounds headers, which the faster one does not
            lifespan="off",
            ws="none",
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            ssl_certfile=None if secrets is None else str(secrets.certificate),
            ssl_keyfile=None if secrets is None else str(secrets.key),
        )

    def _begin(self) -> tuple[HttpGrid, Any]:
        """A run that is under way, as a ServerApp would have one, and its Grid."""
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
        grid = HttpGrid(token="in-process")  # noqa: S106  it never leaves
        grid.set_run(run)
        grid._client = cast(Any, _Direct(state, task))
        return grid, task


class _Direct:
    """The Runtime API that a Grid speaks to, without a network between them."""

    def __init__(self, state: Any, task: Any) -> None:
        self._state, self._task = state, task

    def __getattr__(self, name: str) -> Any:
        words = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
        handler = getattr(runtime_handlers, words)
        return lambda request: handler(request, self._state, self._task)

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse:  # noqa: N802
        """Replies that have come whole: a Grid would wait for the rest of others."""
        whole = [each for each in request.message_ids if self._is_whole(each)]
        return runtime_handlers.pull_messages(
            PullAppMessagesRequest(message_ids=whole), self._state, self._task
        )

    def _is_whole(self, message_id: str) -> bool:
        """Whether all of a reply is here; also if there is none, for errors that stand for it."""
        state = self._state
        with state.lock:
            reply_id = state.message_ins_id_to_message_res_id.get(message_id)
            if reply_id is None:
                return True
            try:
                tree: Iterable[Any] = iterate_object_tree(
                    state.object_store.get_object_tree(reply_id)
                )
                return all(state.object_store.get(part.object_id) for part in tree)
            except NoObjectInStoreError:  # what was not sent in time is gone
                return False


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
