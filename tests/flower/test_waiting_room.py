"""Nodes that wait for a message, at a real server."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from flwr.app import RecordDict
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse
from flwr.proto.node_pb2 import Node as NodeRecord

from dynamite_fl.flower import waiting_room
from dynamite_fl.flower.messenger import Messenger, Request
from tests.flower.test_fleet_rules import Fake, fake
from tests.processes import HANG_SECONDS

__all__ = ["fake"]  # a fixture


def pull(node: Fake) -> int:
    """Ask for messages, and return how many there are."""
    request = PullMessagesRequest(node=NodeRecord(node_id=node.node_id))
    answer = node.post("pull-messages", request)
    assert answer.status_code == 200
    return len(PullMessagesResponse.FromString(answer.content).messages_list)


def test_a_message_reaches_a_node_that_waits(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_room, "WAIT_SECONDS", 0.2)
    began = time.monotonic()
    assert pull(fake) == 0  # after it has waited
    assert time.monotonic() - began >= 0.2
    monkeypatch.setattr(waiting_room, "WAIT_SECONDS", HANG_SECONDS)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(pull, fake)
        time.sleep(0.5)
        assert not waiting.done()
        Messenger(fake.link.grid).send([Request(fake.node_id, RecordDict())], "train", "1", 60.0)
        assert waiting.result(HANG_SECONDS) == 1
    Messenger(fake.link.grid).send([Request(fake.node_id, RecordDict())], "train", "2", 60.0)
    assert pull(fake) == 1  # at once, because it is there already
