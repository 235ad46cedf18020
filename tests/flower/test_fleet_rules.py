"""What known nodes may send, tried over a real connection."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node as NodeRecord
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
)

from dynamite_fl.flower.keys import make_keys, read_server_keys
from dynamite_fl.flower.messenger import Messenger, Request
from dynamite_fl.flower.superlink import SuperLink
from tests.flower.test_auth import Server


@dataclass
class Fake:
    """A node that sends what it likes."""

    link: SuperLink
    server: Server
    node_id: int

    def post(self, path: str, request: Any) -> Any:
        url = f"https://127.0.0.1:{self.link.port}/v1/fleet/{path}"
        headers = self.server.headers(self.server.key)
        return self.server.post(headers, request.SerializeToString(), url)

    def push(self, reply: Message, **metadata: Any) -> Any:
        """Push a reply with other metadata."""
        reply.metadata.__dict__["_message_id"] = reply.object_id
        proto = message_to_proto(remove_content_from_message(reply))
        for name, value in metadata.items():
            setattr(proto.metadata, name, value)
        return self.post(
            "push-messages",
            PushMessagesRequest(
                node=NodeRecord(node_id=self.node_id),
                messages_list=[proto],
                message_object_trees=[get_object_tree(reply)],
            ),
        )


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Fake]:
    make_keys(tmp_path, ["127.0.0.1"], ["known", "other"])
    with SuperLink("127.0.0.1", 0, read_server_keys(tmp_path / "server")) as link:
        server = Server.at(link.port, tmp_path)
        assert server.admits_its_node()
        (node_id,) = [node for node, name in link.registered.items() if name == "known"]
        yield Fake(link, server, node_id)


def ordered(fake: Fake, seconds: float = 60.0) -> Message:
    """Send an order to the node, and return it as the node gets it."""
    request = Request(fake.node_id, RecordDict({"a": ConfigRecord({"bytes": b"order"})}))
    (message_id,) = Messenger(fake.link.grid).send([request], "train", "1", seconds)
    message: Message = fake.link._state.message_ins_store[message_id]
    return message


def reply_to(order: Message, size: int = 100) -> Message:
    reply = Message(RecordDict({"a": ConfigRecord({"bytes": b"x" * size})}), reply_to=order)
    reply.metadata.__dict__["_src_node_id"] = order.metadata.dst_node_id
    return reply


def test_a_node_sends_nothing_but_replies_in_its_own_name(fake: Fake) -> None:
    order = ordered(fake)
    other = next(node for node in fake.link.registered if node != fake.node_id)
    for forged in (
        {"src_node_id": 1},
        {"src_node_id": other},
        {"dst_node_id": other},
        {"reply_to_message_id": ""},
        {"src_node_id": 1, "dst_node_id": other, "reply_to_message_id": ""},  # a made-up order
    ):
        answer = fake.push(reply_to(order), **forged)
        assert answer.status_code == 403, forged
        assert "refused: a node sends" in answer.text
    assert fake.push(reply_to(order)).status_code == 200
    assert len(fake.link._state.message_ins_store) == 1


def test_a_reply_has_the_size_that_the_model_needs(fake: Fake) -> None:
    fake.link.rules.expect_models_of(19_000)
    order = ordered(fake)
    reply = reply_to(order, size=3 * 2**20)
    assert fake.push(reply).status_code == 200
    answers = [
        fake.post(
            "push-object",
            PushObjectRequest(
                node=NodeRecord(node_id=fake.node_id),
                run_id=order.metadata.run_id,
                object_id=object_id,
                object_content=part.deflate(),
            ),
        )
        for object_id, part in get_all_nested_objects(reply).items()
    ]
    assert 413 in [answer.status_code for answer in answers]
    many = ObjectTree(object_id="0" * 64)
    many.children.extend(ObjectTree(object_id=f"{number:064x}") for number in range(100))
    sent = message_to_proto(remove_content_from_message(reply))
    request = PushMessagesRequest(
        node=NodeRecord(node_id=fake.node_id), messages_list=[sent], message_object_trees=[many]
    )
    assert fake.post("push-messages", request).status_code == 413


def test_what_nobody_waits_for_is_removed(fake: Fake) -> None:
    """An order that was never fetched, and a reply of which only a part came."""
    state = fake.link._state
    never_fetched, half_answered = ordered(fake), ordered(fake, seconds=61.0)
    assert fake.push(reply_to(half_answered)).status_code == 200
    assert len(state.object_store) > 0
    messenger = Messenger(fake.link.grid)
    messenger._give_up([order.metadata.message_id for order in (never_fetched, half_answered)])
    assert len(state.object_store) == 0
    assert state.message_ins_store == {}
    assert state.message_res_store == {}
    assert state._object_push_sessions == {}
    assert fake.push(reply_to(half_answered)).status_code == 200  # too late, and not kept
    messenger._give_up([])
    assert len(state.object_store) == 0
    assert state._object_push_sessions == {}
