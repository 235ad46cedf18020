"""The node's side of messages, at a real server: whole, part by part, and with a stock server."""

from collections.abc import Callable
from typing import Any

import pytest
from flwr.proto.node_pb2 import Node as NodeRecord
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from dynamite_fl.flower import mailbox, waiting_room, whole_messages
from dynamite_fl.flower.mailbox import Mailbox
from dynamite_fl.flower.whole_messages import ALIVE, PULL, PUSH
from tests.flower.test_fleet_rules import Fake, fake, ordered, reply_to

__all__ = ["fake"]  # a fixture


def as_they_are(_: pytest.MonkeyPatch) -> None:
    pass


def all_are_large(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(whole_messages, "MOST_BYTES", 10)
    patch.setattr(mailbox, "MOST_BYTES", 10)


def server_is_stock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mailbox, "PULL", "/v1/dynamite/unknown")


PARTS = {"pull-object", "confirm-message-received", "push-messages", "push-object"}


@pytest.mark.parametrize(
    ("change", "paths"),
    [
        (as_they_are, {PULL, ALIVE, PUSH}),
        (all_are_large, {PULL, ALIVE, *PARTS}),
        (server_is_stock, {"/v1/dynamite/unknown", "pull-messages", *PARTS}),
    ],
)
def test_messages_come_and_go(
    fake: Fake,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pytest.MonkeyPatch], None],
    paths: set[str],
) -> None:
    change(monkeypatch)
    monkeypatch.setattr(waiting_room, "WAIT_SECONDS", 0.01)
    used: set[str] = set()
    send = FleetHttpClient._unary_unary

    def noted(client: Any, *, path: str, **settings: Any) -> Any:
        used.add(path.removeprefix("/v1/fleet/"))
        return send(client, path=path, **settings)

    monkeypatch.setattr(FleetHttpClient, "_unary_unary", noted)
    key = fake.server.key
    with FleetHttpClient(
        f"https://127.0.0.1:{fake.link.port}",
        interceptors=[NodeAuthHttpInterceptor(key, key.public_key())],
        verify=fake.server.trusted,
    ) as client:
        box = Mailbox(client, NodeRecord(node_id=fake.node_id), lambda method, asked: method(asked))
        assert box.receive() is None
        assert box.say_alive() == (change is not server_is_stock)
        order = ordered(fake)
        received = box.receive()
        assert received is not None
        assert received.content["a"]["bytes"] == b"order"
        assert received.metadata.message_id == order.metadata.message_id
        box.send(reply_to(received, size=1000), seconds=0.5)
    (arrived,) = fake.link.grid.pull_messages([order.metadata.message_id])
    assert arrived.content["a"]["bytes"] == b"x" * 1000
    assert used == paths
    assert len(fake.link._state.object_store) == 0
