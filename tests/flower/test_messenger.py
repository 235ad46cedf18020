"""Requests and replies over a Grid."""

from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from dynamite_fl.flower.messenger import Messenger, Request
from tests.flower.local_grid import App, LocalGrid


def echo(message: Message, _: Context) -> Message:
    return Message(RecordDict(), reply_to=message)


def hang(*_: object) -> Message:
    raise TimeoutError


def fail(*_: object) -> Message:
    raise RuntimeError("out of memory")


def vanish(message: Message, _: Context) -> Message:
    return Message(Error(code=ErrorCode.NODE_UNAVAILABLE, reason="gone"), reply_to=message)


def test_replies_errors_and_silence(tmp_path: Path) -> None:
    apps: dict[int, App] = {1: echo, 2: hang, 3: fail, 4: vanish}
    grid = LocalGrid(apps, {node_id: {"state": str(tmp_path)} for node_id in apps})
    requests = [Request(node_id, RecordDict()) for node_id in apps]
    responses = Messenger(grid).exchange(requests, "train", "1", timeout=0.05)
    assert sorted(responses) == [1, 3, 4]
    assert responses[1].error is None
    assert responses[3].error == "error 2: out of memory"
    assert responses[3].is_from_node
    assert not responses[4].is_from_node
    assert all(response.seconds >= 0 for response in responses.values())


class Damaged(LocalGrid):
    """A Grid that cannot put replies together, as Flower's if a node sent other bytes."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        list(super().pull_messages(message_ids))
        raise KeyError("no such part")


class Unreachable(LocalGrid):
    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:  # noqa: ARG002
        raise httpx.ConnectError("no network")


def test_a_reply_that_is_no_message_is_an_error_of_its_sender() -> None:
    requests = [Request(1, RecordDict())]
    messenger = Messenger(Damaged({1: echo}, {1: {}}))
    response = messenger.exchange(requests, "train", "1", timeout=300.0)[1]
    assert response.error == "error 2: no message: KeyError: 'no such part'"
    assert response.is_from_node
    with pytest.raises(httpx.ConnectError):  # which no node can cause
        Messenger(Unreachable({1: echo}, {1: {}})).exchange(requests, "train", "1", 300.0)


def test_late_replies_are_dropped() -> None:
    grid = LocalGrid({1: hang}, {1: {}})
    messenger = Messenger(grid)
    assert messenger.exchange([Request(1, RecordDict())], "train", "1", timeout=0.01) == {}
    (message_id,) = messenger._overdue
    grid.apps[1] = echo
    message = Message(RecordDict(), dst_node_id=1, message_type="train")
    (other_id,) = grid.push_messages([message])
    grid._replies[message_id] = grid._replies.pop(other_id)  # it arrives now
    assert list(messenger.exchange([Request(1, RecordDict())], "train", "2", timeout=300.0)) == [1]
    assert messenger._overdue == set()
    assert grid._replies == {}
