"""Connections of strangers, which must not matter."""

import resource

import pytest

from dynamite_fl.flower import connections as limits
from dynamite_fl.flower.connections import Connections, connections_that_fit


def opened(connections: Connections, host: str, ports: range) -> list[int]:
    """Open connections, and return the ports of those that were closed for others."""
    closed: list[int] = []
    for port in ports:
        connections.add((host, port), lambda port=port: closed.append(port))  # type: ignore[misc]
    return closed


def test_the_oldest_stranger_makes_room() -> None:
    connections = Connections(most=5, most_per_host=5)
    assert opened(connections, "a", range(3)) == []
    assert opened(connections, "b", range(3)) == []  # that of a was closed
    assert len(connections) == 5


def test_known_nodes_are_never_closed() -> None:
    connections = Connections(most=3, most_per_host=3)
    closed: list[str] = []
    for port in range(3):
        connections.add(("node", port), lambda: closed.append("node"))
        connections.trust(("node", port))
    assert not connections.add(("stranger", 1), lambda: closed.append("stranger"))
    connections.close_stranger(("node", 0))
    assert closed == []
    connections.remove(("node", 0))
    assert connections.add(("stranger", 1), lambda: closed.append("stranger"))
    connections.close_stranger(("stranger", 1))
    assert closed == ["stranger"]


def test_a_node_cannot_take_all_connections() -> None:
    connections = Connections(most=100, most_per_host=100)
    closed: list[int] = []
    for port in range(40):
        connections.add(("bad", port), lambda port=port: closed.append(port))  # type: ignore[misc]
        connections.trust(("bad", port), b"its key")
        connections.trust(("bad", port), b"its key")  # again, with its next request
    assert closed == list(range(40 - limits._MOST_PER_NODE))
    connections.add(("good", 1), lambda: closed.append(-1))
    connections.trust(("good", 1), b"another key")
    assert connections.nodes == {b"its key", b"another key"}
    assert -1 not in closed


def test_one_host_has_its_own_limit() -> None:
    connections = Connections(most=100, most_per_host=2)
    assert opened(connections, "a", range(5)) == [0, 1, 2]
    connections.trust(("a", 4))
    assert opened(connections, "a", range(5, 7)) == []  # 3, of the loop before, is closed
    assert len(connections) == 3
    assert opened(connections, "b", range(2)) == []


def test_files_are_left_for_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    monkeypatch.setattr(limits, "_open_files", lambda: 50)
    assert connections_that_fit()._most == 1024 - 50 - 128
