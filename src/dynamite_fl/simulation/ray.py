"""An executor that computes clients' rounds with Flower's simulation on Ray.

Ray runs on this machine or on a cluster, and every client is a virtual node of Flower's. Ray's
processes keep no state of a client: it comes with the order and returns with the reply. The data
and the model are put into Ray's object store once. No time is measured here, because simulated
devices have virtual time.
"""

import logging
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from queue import Empty, SimpleQueue
from typing import Any, cast

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from dynamite_fl._allocator import keep_freed_memory
from dynamite_fl._load import user_folders
from dynamite_fl.client.executors.executor import MakeClient
from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.errors import InvalidInput, WorkerError
from dynamite_fl.training.codec import Record, from_bytes, to_bytes

_TRAIN = "train"  # the type of Flower messages that ask for training
_POLL_SECONDS = 0.005  # the time between two looks for replies
_SECONDS_TO_START = 120.0
_SECONDS_TO_END = 5.0  # the time that Flower has to end before Ray is ended
_RESOURCES: Any = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}  # one thread a client


class RayExecutor:
    """Executes clients' rounds in Ray's processes: an ``Executor``.

    The cluster is the one at the address in the environment variable RAY_ADDRESS, with one process
    per processor. Without that variable, Ray is started on this machine for this executor alone,
    and ``close`` ends it.

    Args:
        make_client: Makes the client at a place in the fleet; called in Ray's processes.
        clients: The number of clients.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        InvalidInput: There is no Ray at RAY_ADDRESS, or it cannot be started.
    """

    def __init__(self, make_client: MakeClient, clients: int) -> None:
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
        self._folder = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        try:
            self._ray = _connected(self._folder.name)
        except BaseException:
            self._folder.cleanup()
            raise
        self._has_ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=self._simulate, args=(self._ray.put(make_client), clients), daemon=True
        )
        self._grids: SimpleQueue[Grid] = SimpleQueue()
        try:
            self._thread.start()
            self._grid, self._nodes = self._started(clients)
        except BaseException:
            self.close()
            raise

    def run_round(self, orders: Sequence[Order], states: Sequence[ClientState]) -> list[Reply]:
        """Run a round of each client, and return the replies in the same order.

        Raises:
            WorkerError: A process died, or a client's round failed.
        """
        messages = [
            Message(
                _packed(_ClientRound(order, state)),
                dst_node_id=self._nodes[order.client],
                message_type=_TRAIN,
            )
            for order, state in zip(orders, states, strict=True)
        ]
        sent = list(self._grid.push_messages(messages))
        if len(sent) < len(messages):
            raise WorkerError("Flower's simulation did not accept all orders")
        replies: dict[str, Reply] = {}
        while len(replies) < len(sent):
            missing = [message_id for message_id in sent if message_id not in replies]
            for message in self._grid.pull_messages(missing):
                replies[message.metadata.reply_to_message_id] = _reply(message)
            self._check_alive()
            time.sleep(_POLL_SECONDS)
        return [replies[message_id] for message_id in sent]

    def keep(self, clients: Iterable[int]) -> None:
        """Do nothing: no state is kept by Ray's processes."""

    def take_states(self) -> dict[int, ClientState]:
        """Return no states: none is kept by Ray's processes."""
        return {}

    def close(self) -> None:
        """End Flower's simulation, and Ray if it was started here."""
        self._has_ended.set()
        self._thread.join(_SECONDS_TO_END)
        self._ray.shutdown()
        self._thread.join(_SECONDS_TO_END)
        self._folder.cleanup()

    def _simulate(self, maker: Any, clients: int) -> None:
        """Run Flower's simulation until ``close``; its server app only hands over the Grid."""
        server, client = ServerApp(), ClientApp()
        client.train()(partial(_run_client, maker))

        @server.main()
        def _(grid: Grid, _: Context) -> None:
            self._grids.put(grid)
            self._has_ended.wait()

        try:
            run_simulation(server, client, clients, backend_config=_RESOURCES)
        except Exception as error:
            self._failure = error

    def _started(self, clients: int) -> tuple[Grid, list[int]]:
        """Wait for the Grid, and return it with the node of each client."""
        ends = time.monotonic() + _SECONDS_TO_START
        grid: Grid | None = None
        while time.monotonic() < ends:
            self._check_alive()
            try:
                grid = grid or self._grids.get(timeout=0.1)
            except Empty:
                continue
            nodes = sorted(grid.get_node_ids())
            if len(nodes) == clients:
                return grid, nodes
            time.sleep(_POLL_SECONDS)
        raise WorkerError(f"Flower's simulation has not started after {_SECONDS_TO_START:g} s")

    def _check_alive(self) -> None:
        if not self._thread.is_alive():
            cause = self._failure.__cause__ or self._failure if self._failure else "unknown cause"
            raise WorkerError(f"Flower's simulation has ended: {cause}")


@dataclass(frozen=True, eq=False)
class _ClientRound:
    order: Order
    state: ClientState


def _connected(folder: str) -> Any:
    """Connect to Ray, or start it with its files in this folder, and return its module."""
    own: dict[str, Any] = {}
    address = os.environ.get("RAY_ADDRESS")
    if address is None:  # Ray runs any code that it is sent, so nobody else may reach it
        own = {"include_dashboard": False, "_temp_dir": folder}
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # it listens at 127.0.0.1 only
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of a change
    import ray  # it reads its environment when it is imported

    folders = [path or os.getcwd() for path in sys.path]  # noqa: PTH109  as it is
    paths = os.pathsep.join([*map(str, user_folders()), *folders])
    try:
        if address is not None:
            _check_reachable(address)
        ray.init(
            **own,
            logging_level=logging.ERROR,
            log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": paths}},
        )
    except OSError as error:
        where = "could not be started" if address is None else f"is not at RAY_ADDRESS={address}"
        raise InvalidInput(f"Ray {where}: {error}") from None
    return ray


def _check_reachable(address: str) -> None:
    """Fail at once if nothing listens at this address; Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _packed(record: Any) -> RecordDict:
    return RecordDict({"packed": ConfigRecord({"record": to_bytes(record)})})


def _unpacked(message: Message, kind: type[Record]) -> Record:
    return from_bytes(cast(bytes, message.content["packed"]["record"]), kind)


def _reply(message: Message) -> Reply:
    if message.has_error():
        raise WorkerError(
            f"a client failed on Ray: {message.error.reason}; the training can be resumed"
        )
    return _unpacked(message, Reply)


def _run_client(maker: Any, message: Message, _: Context) -> Message:
    """Run a client's round in one of Ray's processes."""
    torch.set_num_threads(1)
    keep_freed_memory()
    given = _unpacked(message, _ClientRound)
    client = _fetch_make_client(maker)(given.order.client)
    return Message(_packed(client.run_round(given.order, given.state)), reply_to=message)


@lru_cache(maxsize=1)
def _fetch_make_client(maker: Any) -> MakeClient:
    """Fetch the function that makes clients of the data. Each process fetches it once."""
    import ray

    make_client: MakeClient = ray.get(maker)
    return make_client
