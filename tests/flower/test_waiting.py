"""What the operator sees while the server waits for nodes."""

from pathlib import Path

from dynamite_fl.flower.messenger import Messenger
from dynamite_fl.flower.roster import Roster
from dynamite_fl.flower.waiting import WaitStatus, wait_for_nodes, wait_status
from tests.flower.fleet import CLIENTS, grid
from tests.processes import HANG_SECONDS


def test_every_change_is_shown_once(tmp_path: Path) -> None:
    """Two nodes are there from the start, the others come one by one."""
    nodes = grid(tmp_path)
    late = [(node_id, nodes.apps.pop(node_id)) for node_id in (3, 4, 5)]
    shown: list[str] = []

    def show(status: WaitStatus) -> None:
        shown.append(str(status))
        node_id, device = late.pop(0)
        nodes.apps[node_id] = device

    wait_for_nodes(Roster(Messenger(nodes), CLIENTS), CLIENTS, HANG_SECONDS, show)
    assert shown == [
        "Waiting for 5 nodes: 2 connected (device 1, device 2), 3 missing",
        "Waiting for 5 nodes: 3 connected (device 1, device 2, device 3), 2 missing",
        "Waiting for 5 nodes: 4 connected (device 1, device 2, device 3, device 4), 1 missing",
    ]


def test_nothing_is_shown_if_all_are_connected(tmp_path: Path) -> None:
    shown: list[WaitStatus] = []
    wait_for_nodes(Roster(Messenger(grid(tmp_path)), CLIENTS), CLIENTS, HANG_SECONDS, shown.append)
    assert shown == []


def test_missing_nodes_are_named_where_keys_tell_their_names(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    del nodes.apps[2]
    registered = {node_id: f"device {node_id}" for node_id in range(1, CLIENTS + 1)}
    roster = Roster(Messenger(nodes), CLIENTS, registered=registered)
    roster.update()
    assert wait_status(roster, CLIENTS).absent == ("device 2",)
    assert "1 missing (device 2)" in str(wait_status(roster, CLIENTS))
    assert "2 missing (device 2 and others)" in str(wait_status(roster, CLIENTS + 1))


def test_missing_nodes_are_named_where_it_is_known_which_were_started(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    del nodes.apps[2], nodes.apps[3]
    names = [f"device {number}" for number in range(1, CLIENTS + 1)]
    roster = Roster(Messenger(nodes), CLIENTS, expected_names=names)
    roster.update()
    assert "2 missing (device 2, device 3)" in str(wait_status(roster, CLIENTS))
    assert "1 missing (any of device 2, device 3)" in str(wait_status(roster, CLIENTS - 1))


def test_long_lists_are_cut() -> None:
    names = tuple(f"n{number}" for number in range(30))
    assert "n18, n19 and 10 more), 70 missing" in str(WaitStatus(100, names))
