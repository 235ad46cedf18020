"""Which devices take part: every device has a name and a fixed client index.

A device may reconnect as another Flower node; its name shows that it is the same device. It keeps
its client index from its first connection to the end of the training, so its estimates stay valid.
The names are kept in a file beside the checkpoint.
"""

import logging
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flwr.app import RecordDict

from dynamite_fl.client.model_outline import ModelOutline
from dynamite_fl.flower.conduct import Conduct
from dynamite_fl.flower.message_checks import check_introduction
from dynamite_fl.flower.messages import (
    INTRODUCE,
    NOTICE,
    Introduction,
    Notice,
    from_content,
    to_content,
)
from dynamite_fl.flower.messenger import Messenger, Request, Response
from dynamite_fl.flower.names_file import Names, read_names, write_names
from dynamite_fl.flower.plain_text import plain
from dynamite_fl.flower.plausible import check_speed
from dynamite_fl.flower.wire import Malformed

_log = logging.getLogger(__name__)
_INTRODUCTION_SECONDS = 60.0  # a node that has not introduced itself by then is asked again
_RETRY_SECONDS = 5.0  # before a refused node is asked again
_GOODBYE_SECONDS = 30.0  # that nodes have to hear that the training has ended
_GOODBYE_PAUSE = 0.05  # between two looks at who has heard it


@dataclass(frozen=True)
class ConnectedNode:
    """A device that is connected and has introduced itself.

    Attributes:
        node_id: The id that it has in Flower at present.
        introduction: The report of the device about itself.
        comm_seconds: Seconds that its introduction spent on the network, both ways.
    """

    node_id: int
    introduction: Introduction
    comm_seconds: float


@dataclass
class Roster:
    """The devices of a training, and which of them are connected.

    Attributes:
        messenger: The connection to the nodes.
        capacity: The number of devices that can take part.
        path: The file for the devices' names; None to keep none.
        max_samples: The largest number of samples that a device may claim to hold.
        registered: The name that belongs to each node's key, by node id; empty without keys.
        expected_names: The names of nodes that were started, as far as they are known.
        model: The outline of the model, which devices must have too; None to accept any.
        conduct: The record of devices that sent implausible answers, and of those left out.
        training: A random word that identifies the training to the devices.
        names: The devices' names, by client index.
        connected: The connected devices, by client index.
        last_refusal: Why the last node was refused; empty if none was.
    """

    messenger: Messenger
    capacity: int
    path: Path | None = None
    max_samples: int = 10_000_000
    registered: Mapping[int, str] = field(default_factory=dict)
    expected_names: Sequence[str] = ()
    model: ModelOutline | None = None
    conduct: Conduct = field(default_factory=Conduct)
    training: str = field(default_factory=lambda: secrets.token_hex(8))
    names: list[str] = field(default_factory=list)
    connected: dict[int, ConnectedNode] = field(default_factory=dict)
    last_refusal: str = ""
    _is_order_fixed: bool = False
    _introductions_due: dict[str, tuple[int, float]] = field(default_factory=dict)
    _refused_until: dict[int, float] = field(default_factory=dict)
    _told: dict[int, str] = field(default_factory=dict)  # why each refused node was refused

    def __post_init__(self) -> None:
        saved = None if self.path is None else read_names(self.path)
        if saved is not None:
            self.training, self.names = saved.training, list(saved.names)
            self._is_order_fixed = True

    @property
    def usable(self) -> dict[int, ConnectedNode]:
        """The connected devices that are not excluded, by client index."""
        return {
            client: node
            for client, node in self.connected.items()
            if node.introduction.name not in self.conduct.excluded
        }

    @property
    def connected_names(self) -> list[str]:
        """The names of the connected devices that are not excluded, sorted."""
        return sorted(node.introduction.name for node in self.usable.values())

    def fix_order(self) -> None:
        """Assign client indices to the first devices by their names, not by their arrival.

        Later calls, and calls after a resume, change nothing.
        """
        if self._is_order_fixed:
            return
        nodes = sorted(self.connected.values(), key=lambda node: node.introduction.name)
        self.connected = dict(enumerate(nodes))
        self.names = [node.introduction.name for node in nodes]
        self._is_order_fixed = True
        self._save()

    def update(self) -> None:
        """Note which nodes have come and which have gone, without waiting for any of them."""
        self.conduct.read()
        online = set(self.messenger.grid.get_node_ids())
        for client, node in list(self.connected.items()):
            if node.node_id not in online:
                self.disconnect(client, "the connection to it was lost")
        now = time.monotonic()
        self._refused_until = {
            node_id: until
            for node_id, until in self._refused_until.items()
            if node_id in online and until > now
        }
        self._request_introductions(online, now)
        self._read_introductions(online)

    def disconnect(self, client: int, reason: str) -> None:
        """Leave a device out until it introduces itself again."""
        name = self.names[client]
        _log.warning("%s is left out until it connects and answers again: %s.", name, reason)
        del self.connected[client]

    def _request_introductions(self, online: set[int], now: float) -> None:
        """Ask nodes that are new to introduce themselves."""
        known = {node.node_id for node in self.connected.values()} | set(self._refused_until)
        known |= {node_id for node_id, _ in self._introductions_due.values()}
        requests = [Request(node_id, RecordDict()) for node_id in sorted(online - known)]
        sent = self.messenger.send(requests, INTRODUCE, "introduction", _INTRODUCTION_SECONDS)
        self._introductions_due |= {
            message_id: (node_id, now) for message_id, node_id in sent.items()
        }

    def _read_introductions(self, online: set[int]) -> None:
        """Admit the nodes whose introductions have arrived, in the order of their names."""
        responses: list[tuple[int, Response]] = []
        for message_id, (node_id, asked_at) in list(self._introductions_due.items()):
            message = self.messenger.pull_reply(message_id)
            if message is not None:
                responses.append((node_id, Response(message, time.monotonic() - asked_at)))
            if message is not None or node_id not in online:
                del self._introductions_due[message_id]
        nodes = [
            node
            for node_id, response in responses
            if (node := self._introduced(node_id, response)) is not None
        ]
        for node in sorted(nodes, key=lambda node: node.introduction.name):
            self._admit(node)

    def _introduced(self, node_id: int, response: Response) -> ConnectedNode | None:
        """Return the node that a valid introduction describes; refuse the node otherwise."""
        try:
            if response.error is not None:
                raise Malformed(response.error)
            introduction = from_content(response.message.content, Introduction)
            check_introduction(introduction, self.max_samples, self.model)
            check_speed(introduction.samples_per_second, introduction.seconds, response.seconds)
            name = introduction.name
            if self.registered.get(node_id, name) != name:
                raise Malformed(
                    f"it says that its name is {name}, but its key belongs to "
                    f"{self.registered[node_id]}; start it with the keys of {name}"
                )
        except Malformed as error:
            self._refuse(node_id, str(error))
            return None
        comm_seconds = max(response.seconds - introduction.seconds, 0.0)
        return ConnectedNode(node_id, introduction, comm_seconds)

    def _admit(self, node: ConnectedNode) -> None:
        """Give a node its client index, unless its name is taken or all indices are."""
        name = node.introduction.name
        if name not in self.names:
            if len(self.names) >= self.capacity:
                self._refuse(
                    node.node_id, f"{name} is one too many: the job has {self.capacity} devices"
                )
                return
            self.names.append(name)
            self._save()
        client = self.names.index(name)
        if client in self.connected:
            self._refuse(node.node_id, f"another node with the name {name} is connected")
            return
        _log.info("%s is connected as device %d of %d.", name, client + 1, self.capacity)
        self.connected[client] = node

    def _refuse(self, node_id: int, reason: str) -> None:
        """Refuse a node for a while, and tell it and the operator why, once."""
        self._refused_until[node_id] = time.monotonic() + _RETRY_SECONDS
        self.last_refusal = plain(reason)
        if self._told.get(node_id) == self.last_refusal:
            return
        who = self.registered.get(node_id)
        named = f"Node {node_id}" if who is None else f"{who} (node {node_id})"
        _log.warning("%s is refused: %s.", named, self.last_refusal)
        notice = Notice(f"The server refuses this node: {self.last_refusal}.")
        self.messenger.ignore_replies(self.tell([node_id], notice))
        self._told[node_id] = self.last_refusal

    def tell(self, node_ids: Iterable[int], notice: Notice) -> dict[str, int]:
        """Tell nodes something, and return the node of each message, by the message's id."""
        requests = [Request(node_id, to_content(notice)) for node_id in node_ids]
        return self.messenger.send(requests, NOTICE, "notice", _INTRODUCTION_SECONDS)

    def say_goodbye(self, why: str) -> None:
        """Tell all nodes that are online that the training has ended, and wait for them.

        A node that was too late for the last round reads it when it has finished that round. A node
        that does not hear it would try to connect again and again.

        Args:
            why: The limit that ended the training.
        """
        notice = Notice(f"The training has ended, by its {why}. This node leaves.", is_end=True)
        waiting = self.tell(self.messenger.grid.get_node_ids(), notice)
        ends = time.monotonic() + _GOODBYE_SECONDS
        while waiting and time.monotonic() < ends:
            online = set(self.messenger.grid.get_node_ids())
            waiting = {
                message_id: node_id
                for message_id, node_id in waiting.items()
                if node_id in online and self.messenger.pull_reply(message_id) is None
            }
            time.sleep(_GOODBYE_PAUSE)

    def _save(self) -> None:
        if self.path is not None and self._is_order_fixed:
            write_names(self.path, Names(self.training, self.names))
