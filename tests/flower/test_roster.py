"""Which devices are connected, and under which client index."""

import math
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message

from dynamite_fl.flower.messages import Introduction, to_content
from dynamite_fl.flower.messenger import Messenger
from dynamite_fl.flower.roster import Roster
from tests.flower.fleet import CLIENTS, app, grid
from tests.flower.local_grid import LocalGrid


def updated(nodes: LocalGrid, **settings: Any) -> Roster:
    roster = Roster(Messenger(nodes), CLIENTS, **settings)
    roster.update()
    roster.fix_order()
    return roster


def configs(nodes: LocalGrid) -> dict[int, dict[str, Any]]:
    return {node_id: dict(context.node_config) for node_id, context in nodes.contexts.items()}


def test_names_that_are_taken_and_one_device_too_many(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = grid(tmp_path)
    extra = {6: app(0, tmp_path / "six"), 7: app(1, tmp_path / "seven")}
    names = configs(nodes) | {6: {"name": "device 1"}, 7: {"name": "one more"}}
    roster = updated(LocalGrid({**nodes.apps, **extra}, names))
    assert sorted(node.node_id for node in roster.connected.values()) == [1, 2, 3, 4, 5]
    assert "Node 6 is refused: another node with the name device 1 is connected." in caplog.text
    assert "Node 7 is refused: one more is one too many: the job has 5 devices." in caplog.text


def test_a_node_with_the_name_of_another_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    roster = updated(grid(tmp_path), registered={1: "device 1", 2: "lab"})
    assert "device 2" not in roster.names
    why = "it says that its name is device 2, but its key belongs to lab; start it with the keys of"
    assert f"lab (node 2) is refused: {why}" in caplog.text
    assert f"The server refuses this node: {why}" in caplog.text  # said by the node itself
    roster._refused_until.clear()
    roster.update()
    assert caplog.text.count("is refused") == 1  # again, but not said again


def test_nodes_hear_that_the_training_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    roster = updated(grid(tmp_path))
    roster.say_goodbye("deadline")
    said = "The training has ended, by its deadline. This node leaves."
    assert caplog.text.count(said) == CLIENTS


def test_a_node_that_was_late_hears_the_end_too_and_one_that_is_gone_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    nodes = grid(tmp_path)
    roster = updated(nodes)
    roster.disconnect(1, "it was late")
    heard = roster.messenger.pull_reply

    def never_of_the_first(message_id: str) -> object:
        """Lose the first node while the server waits for its reply."""
        reply = heard(message_id)
        if reply is not None and reply.metadata.src_node_id == gone:
            nodes.apps.pop(gone, None)
            return None
        return reply

    gone = roster.connected[0].node_id
    monkeypatch.setattr(roster.messenger, "pull_reply", never_of_the_first)
    roster.say_goodbye("deadline")
    assert caplog.text.count("The training has ended, by its deadline.") == CLIENTS
    assert gone not in nodes.get_node_ids()


def test_a_device_that_reconnects_as_another_node_keeps_its_client_index(tmp_path: Path) -> None:
    names_file = tmp_path / "nodes.json"
    nodes = grid(tmp_path)
    roster = updated(nodes, path=names_file)
    device = nodes.apps.pop(2)
    roster.update()
    assert sorted(roster.connected) == [0, 2, 3, 4]
    back = LocalGrid({**nodes.apps, 77: device}, configs(nodes) | {77: {"name": "device 2"}})
    nodes.apps, nodes.contexts = back.apps, back.contexts
    roster.update()
    assert roster.connected[1].node_id == 77
    resumed = updated(nodes, path=names_file)
    assert resumed.names == roster.names
    assert resumed.training == roster.training


def test_first_devices_are_ordered_by_name_and_later_ones_are_added(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    first = nodes.apps.pop(1)
    roster = updated(nodes)
    nodes.apps[1] = first
    roster.update()
    assert roster.names == ["device 2", "device 3", "device 4", "device 5", "device 1"]


@pytest.mark.parametrize(
    "introduction",
    [
        Introduction("", 5, 1.0, 0.0),
        Introduction("x\n", 5, 1.0, 0.0),
        Introduction("#x", 5, 1.0, 0.0),  # a comment in excluded.txt
        Introduction(" x", 5, 1.0, 0.0),
        Introduction("x ", 5, 1.0, 0.0),
        Introduction("x\u202ey", 5, 1.0, 0.0),
        Introduction("x\ud800", 5, 1.0, 0.0),
        Introduction("x", -5, 1.0, 0.0),
        Introduction("x", 10**12, 1.0, 0.0),
        Introduction("x", 5, math.nan, 0.0),
    ],
)
def test_introductions_that_cannot_be_true(tmp_path: Path, introduction: Introduction) -> None:
    def introduce(message: Message, _: Context) -> Message:
        return Message(to_content(introduction), reply_to=message)

    nodes = grid(tmp_path)
    nodes.apps[5] = introduce
    assert sorted(updated(nodes).connected) == [0, 1, 2, 3]
