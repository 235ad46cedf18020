"""What a server knows of its messages, without looking through all of them."""

import pytest
from flwr.common.constant import SUPERLINK_NODE_ID

from dynamite_fl.flower.in_process import has_message
from tests.flower.test_fleet_rules import Fake, fake, ordered, reply_to
from tests.flower.test_whole_messages import post, whole

__all__ = ["fake"]  # a fixture


def test_a_message_is_handed_out_once_and_to_its_node_only(fake: Fake) -> None:
    state = fake.link._state
    first, second = ordered(fake), ordered(fake, seconds=61.0)
    other = next(node for node in fake.link.registered if node != fake.node_id)
    assert state.get_message_ins(other, 1) == []
    assert state.get_message_ins(SUPERLINK_NODE_ID, None) == []
    assert has_message(state, fake.node_id)
    assert not has_message(state, other)
    assert state.get_message_ins(fake.node_id, 1) == [first]
    assert state.get_message_ins(fake.node_id, None) == [second]
    assert state.get_message_ins(fake.node_id, 1) == []
    assert not has_message(state, fake.node_id)


def test_a_message_that_has_expired_is_not_handed_out(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ordered(fake)
    arrived = fake.link.grid.arrived
    assert arrived([order.metadata.message_id]) == []
    monkeypatch.setattr(order.metadata, "_created_at", order.metadata.created_at - 100.0)
    assert arrived([order.metadata.message_id]) == [order.metadata.message_id]  # as an error
    assert fake.link._state.get_message_ins(fake.node_id, 1) == []


def test_what_is_settled_has_a_whole_reply_or_an_error(fake: Fake) -> None:
    arrived, state = fake.link.grid.arrived, fake.link._state
    whole_reply, half, none = (ordered(fake, seconds=60.0 + number) for number in range(3))
    ids = [order.metadata.message_id for order in (whole_reply, half, none)]
    assert post(fake, "/v1/dynamite/push", whole(reply_to(whole_reply), fake.node_id)).is_success
    assert fake.push(reply_to(half)).status_code == 200  # its parts never come
    assert arrived(ids) == ids[:1]
    (reply,) = fake.link.grid.pull_messages(ids[:1])
    assert not reply.has_error()
    state.nodes[fake.node_id].online_until = 0.0
    assert arrived(ids[1:]) == ids[2:]
    (error,) = fake.link.grid.pull_messages(ids[2:])
    assert error.has_error()
