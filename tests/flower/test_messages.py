"""Records that cross the network."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.flower.messages import (
    Introduction,
    TrainOrder,
    TrainReply,
    Work,
    from_content,
    to_content,
    train_reply,
)
from dynamite_fl.flower.wire import Malformed, pack

ORDER = Order(
    client=0,
    round_index=1,
    weights=torch.arange(3.0),
    local_steps=2,
    batch_size=8,
    learning_rate=0.1,
    probe=True,
    remember=True,
)


def test_a_record_arrives_as_it_was_sent() -> None:
    received = from_content(to_content(TrainOrder("abc", "nonce", ORDER)), TrainOrder)
    assert received.training == "abc"
    assert torch.equal(received.order.weights, ORDER.weights)
    assert replace(received.order, weights=ORDER.weights).__dict__ == ORDER.__dict__


def test_the_state_of_a_device_is_not_sent() -> None:
    reply = Reply(torch.ones(3), 5, None, None, None, 0, ClientState(gradient_variance=4.0))
    sent = to_content(
        train_reply(
            TrainOrder("abc", "nonce", ORDER),
            reply,
            Work(computed=4, step_seconds=0.5, seconds=1.0),
        )
    )
    received = from_content(sent, TrainReply)
    assert received.reply.state.gradient_variance is None
    assert received.reply.samples == 5
    assert received.work.computed == 4


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 8, b"\xff" * 99, (2**62).to_bytes(8, "little") + b"{}", b"\0" * 8]
)
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed, match="cannot be read"):
        from_content(pack(data), TrainOrder)


def test_a_record_of_another_type_is_refused() -> None:
    with pytest.raises(Malformed, match="the fields of TrainReply differ"):
        from_content(to_content(TrainOrder("abc", "nonce", ORDER)), TrainReply)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("samples", "many", "samples is of another type: str"),
        ("samples", 2.5, "samples is of another type: float"),
        ("samples", True, "samples is of another type: bool"),
        ("samples", None, "samples is of another type: NoneType"),
        ("seconds", 10**400, "seconds is a number of 1329 bits"),
        ("name", [1], "name is of another type: list"),
    ],
)
def test_values_of_another_type_are_refused(field: str, value: Any, reason: str) -> None:
    met = Introduction("ward", samples=40, samples_per_second=90.0, seconds=0.1)
    with pytest.raises(Malformed, match=reason):
        from_content(to_content(replace(met, **{field: value})), Introduction)
