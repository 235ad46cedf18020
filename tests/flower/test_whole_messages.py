"""Whole messages over a real connection: what is checked is what Flower's protocol checks."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.node_pb2 import Node as NodeRecord
from flwr.proto.recorddict_pb2 import BytesList
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
)
from flwr.supercore.primitives.asymmetric import generate_key_pairs

from dynamite_fl.flower import waiting_room
from dynamite_fl.flower.keys import make_keys, read_server_keys
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.flower.whole_messages import ALIVE, PULL, PUSH, read_order
from tests.flower.test_auth import Server
from tests.flower.test_fleet_rules import Fake, fake, ordered, reply_to
from tests.processes import wait_until

__all__ = ["fake"]  # a fixture


def whole(reply: Message, node_id: int, **metadata: Any) -> bytes:
    """Return the request with which a node sends a reply, with other metadata."""
    reply.metadata.__dict__["_message_id"] = reply.object_id
    proto = message_to_proto(remove_content_from_message(reply))
    for name, value in metadata.items():
        setattr(proto.metadata, name, value)
    announced = PushMessagesRequest(
        node=NodeRecord(node_id=node_id),
        messages_list=[proto],
        message_object_trees=[get_object_tree(reply)],
    )
    parts = [part.deflate() for part in get_all_nested_objects(reply).values()]
    request: bytes = BytesList(vals=[announced.SerializeToString(), *parts]).SerializeToString()
    return request


def post(fake: Fake, path: str, content: bytes, key: Any = None) -> Any:
    headers = fake.server.headers(key or fake.server.key)
    return fake.server.post(headers, content, f"https://127.0.0.1:{fake.link.port}{path}")


def test_an_order_and_its_reply_take_one_request_each(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_room, "WAIT_SECONDS", 0.01)
    nothing = post(fake, PULL, b"")
    assert (nothing.status_code, nothing.content) == (200, b"")
    order = ordered(fake)
    parts = list(BytesList.FromString(post(fake, PULL, b"").content).vals)
    found, contents = read_order(parts)
    assert found.message_object_trees[0].object_id == order.metadata.message_id
    assert any(b"order" in content for content in contents.values())
    assert post(fake, PULL, b"").content == b""  # it is handed out once
    assert post(fake, PUSH, whole(reply_to(order), fake.node_id)).status_code == 200
    (arrived,) = fake.link.grid.pull_messages([order.metadata.message_id])
    assert arrived.content["a"]["bytes"] == b"x" * 100
    state = fake.link._state
    assert state.message_ins_store == state.message_res_store == {}
    assert len(state.object_store) == 0


@pytest.mark.parametrize("path", [PULL, ALIVE])
def test_every_request_is_a_sign_of_life(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(waiting_room, "WAIT_SECONDS", 0.01)
    wait_until(lambda: len(fake.link.connections) == 0)  # an open one is a sign of life too
    node = fake.link._state.nodes[fake.node_id]
    node.online_until = 0.0
    assert fake.node_id not in fake.link.grid.get_node_ids()
    assert post(fake, path, b"").status_code == 200
    assert fake.node_id in fake.link.grid.get_node_ids()


def test_a_node_of_an_earlier_server_has_to_connect_again(tmp_path: Path) -> None:
    """It may not even have noticed that the server was killed and started anew."""
    make_keys(tmp_path, ["127.0.0.1"], ["known"])
    with SuperLink("127.0.0.1", 0, read_server_keys(tmp_path / "server")) as link:
        server = Server.at(link.port, tmp_path)
        (node_id,) = link.registered
        again = Fake(link, server, node_id)
        for path in (PULL, ALIVE):
            answer = post(again, path, b"")
            assert answer.status_code == 401
            assert "this node has to connect again" in answer.text
        assert server.admits_its_node()
        assert post(again, ALIVE, b"").status_code == 200


def test_a_node_sends_nothing_but_replies_in_its_own_name(fake: Fake) -> None:
    order = ordered(fake)
    other = next(node for node in fake.link.registered if node != fake.node_id)
    for node_id, forged in (
        (other, {}),
        (fake.node_id, {"src_node_id": 1}),
        (fake.node_id, {"src_node_id": other}),
        (fake.node_id, {"dst_node_id": other}),
        (fake.node_id, {"reply_to_message_id": ""}),
    ):
        answer = post(fake, PUSH, whole(reply_to(order), node_id, **forged))
        assert answer.status_code == 403, forged
        assert "refused: a node sends" in answer.text
    assert fake.link._state.message_res_store == {}


@pytest.mark.parametrize("content", [b"", b"\xff" * 99, BytesList(vals=[b"\xff"])])
def test_bytes_that_are_no_reply_are_refused(fake: Fake, content: Any) -> None:
    body = content if isinstance(content, bytes) else content.SerializeToString()
    assert 400 <= post(fake, PUSH, body).status_code < 500
    cut = whole(reply_to(ordered(fake)), fake.node_id)
    assert 400 <= post(fake, PUSH, cut[:-50]).status_code < 500


def test_a_reply_has_the_size_that_the_model_needs(fake: Fake) -> None:
    fake.link.rules.expect_models_of(19_000)
    reply = reply_to(ordered(fake), size=3 * 2**20)
    answer = post(fake, PUSH, whole(reply, fake.node_id))
    assert answer.status_code == 413
    assert "a reply for this model has at most" in answer.text


def test_strangers_are_refused(fake: Fake) -> None:
    stranger, _ = generate_key_pairs()
    for path in (PULL, PUSH, ALIVE):
        answer = post(fake, path, b"", key=stranger)
        assert answer.status_code == 401
        assert "the server does not know the key of this node" in answer.text


def test_a_server_without_keys_checks_signatures_too(fake: Fake) -> None:
    """Whoever is on the same machine cannot take the orders of a node without its key."""
    with SuperLink("127.0.0.1", 0) as link:
        stranger, _ = generate_key_pairs()
        headers = fake.server.headers(stranger)
        url = f"http://127.0.0.1:{link.port}{PULL}"
        assert fake.server.post(headers, b"", url).status_code == 401  # it was not registered
        forged = {**headers, "flwr-signature": fake.server.headers(stranger)["flwr-signature"]}
        assert fake.server.post(forged, b"", url).status_code == 401
