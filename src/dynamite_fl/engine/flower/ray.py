"""Flower's simulation on Ray: it computes for simulated clients, on a machine or a cluster.

Every client is a virtual node of Flower's. Ray's processes keep nothing of a client: its state
comes with its order and goes back with its reply. Data and model are put into Ray's store once.
No time is measured: the simulated engine has it from the device models.
"""

import logging
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from queue import Empty, SimpleQueue
from typing import Any, cast

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from dynamite_fl.client.client import Client, ClientState, Order, Reply
from dynamite_fl.engine.flower.message import TRAIN
from dynamite_fl.engine.pack import Record, from_bytes, to_bytes
from dynamite_fl.engine.pool import WorkerError

_POLL = 0.005  # seconds between looks for replies
_SECONDS_TO_START = 120.0
_SECONDS_TO_END = 5.0  # that Flower has before Ray is ended under it
_RESOURCES: Any = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}  # one thread a client

MakeClient = Callable[[int], Client]


class RayCrew:
    """Processes of Ray's that play rounds for clients.

    They are those of the cluster that RAY_ADDRESS names, as many as it has processors. Without
    it, a Ray of its own is started on this machine, for nobody else, and ended by ``close``.

    Args:
        make_client: A client by its number; called in the processes.
        clients: How many there are.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ValueError: There is no Ray at RAY_ADDRESS.
    """

    def __init__(self, make_client: MakeClient, clients: int) -> None:
        logging.getLogger("flwr").setLevel(logging.CRITICAL)
        self._folder = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        self._ray = _connected(self._folder.name)
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=self._simulate, args=(self._ray.put(make_client), clients), daemon=True
        )
        self._handed: SimpleQueue[Grid] = SimpleQueue()
        try:
            self._thread.start()
            self._grid, self._nodes = self._started(clients)
        except BaseException:
            self.close()
            raise

    def play(self, orders: Sequence[Order], states: Sequence[ClientState]) -> list[Reply]:
        """A round of each client, in the order given.

        Raises:
            WorkerError: A process died or failed.
        """
        messages = [
            Message(
                _sealed(_Job(order, state)),
                dst_node_id=self._nodes[order.client],
                message_type=TRAIN,
            )
            for order, state in zip(orders, states, strict=True)
        ]
        sent = list(self._grid.push_messages(messages))
        if len(sent) < len(messages):
            raise WorkerError("Flower's simulation did not take all orders")
        replies: dict[str, Reply] = {}
        while len(replies) < len(sent):
            missing = [each for each in sent if each not in replies]
            for message in self._grid.pull_messages(missing):
                replies[message.metadata.reply_to_message_id] = _reply(message)
            self._check_alive()
            time.sleep(_POLL)
        return [replies[each] for each in sent]

    def keep(self, clients: Iterable[int]) -> None:
        """Nothing is kept there: states come back with replies."""

    def take_states(self) -> dict[int, ClientState]:
        """None, likewise."""
        return {}

    def close(self) -> None:
        """End Flower's simulation, and Ray if it was started here."""
        self._over.set()
        self._thread.join(_SECONDS_TO_END)
        self._ray.shutdown()
        self._thread.join(_SECONDS_TO_END)
        self._folder.cleanup()

    def _simulate(self, maker: Any, clients: int) -> None:
        """Flower's simulation, from begin to end; its server app does but hand over the Grid."""
        server, client = ServerApp(), ClientApp()
        client.train()(partial(_play, maker))

        @server.main()
        def _(grid: Grid, _: Context) -> None:
            self._handed.put(grid)
            self._over.wait()

        try:
            run_simulation(server, client, clients, backend_config=_RESOURCES)
        except Exception as error:
            self._failure = error

    def _started(self, clients: int) -> tuple[Grid, list[int]]:
        """The Grid, and the node of each client."""
        ends = time.monotonic() + _SECONDS_TO_START
        grid: Grid | None = None
        while time.monotonic() < ends:
            self._check_alive()
            try:
                grid = grid or self._handed.get(timeout=0.1)
            except Empty:
                continue
            nodes = sorted(grid.get_node_ids())
            if len(nodes) == clients:
                return grid, nodes
            time.sleep(_POLL)
        raise WorkerError(f"Flower's simulation has not started after {_SECONDS_TO_START:g} s")

    def _check_alive(self) -> None:
        if not self._thread.is_alive():
            why = self._failure.__cause__ or self._failure if self._failure else "no reason given"
            raise WorkerError(f"Flower's simulation has ended: {why}")


@dataclass(frozen=True, eq=False)
class _Job:
    order: Order
    state: ClientState


def _connected(folder: str) -> Any:
    """Ray, ready for use; the folder is for its files, if it is started here."""
    own: dict[str, Any] = {}
    address = os.environ.get("RAY_ADDRESS")
    if address is None:  # no door to it: Ray runs whatever code it is sent
        own = {"include_dashboard": False, "_temp_dir": folder}
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # it listens at 127.0.0.1 only
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of a change
    import ray  # it reads its environment when it is imported

    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109  as it is
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
        raise ValueError(f"Ray {where}: {error}") from None
    return ray


def _check_reachable(address: str) -> None:
    """Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _sealed(record: Any) -> RecordDict:
    return RecordDict({"packed": ConfigRecord({"record": to_bytes(record)})})


def _opened(message: Message, kind: type[Record]) -> Record:
    return from_bytes(cast(bytes, message.content["packed"]["record"]), kind)


def _reply(message: Message) -> Reply:
    if message.has_error():
        raise WorkerError(
            f"a client failed on Ray: {message.error.reason}; the training can be resumed"
        )
    return _opened(message, Reply)


def _play(maker: Any, message: Message, _: Context) -> Message:
    """A client's round, in one of Ray's processes."""
    torch.set_num_threads(1)
    job = _opened(message, _Job)
    reply = _fetched(maker)(job.order.client).play(job.order, job.state)
    return Message(_sealed(reply), reply_to=message)


@lru_cache(maxsize=1)
def _fetched(maker: Any) -> MakeClient:
    """What makes clients, with the data: fetched once by each process."""
    import ray

    make_client: MakeClient = ray.get(maker)
    return make_client
