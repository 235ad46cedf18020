"""Which nodes count as connected, at a real server."""

from flwr.app import RecordDict
from flwr.proto.fleet_pb2 import DeactivateNodeRequest

from dynamite_fl.flower import presence
from dynamite_fl.flower.messenger import Messenger, Request
from dynamite_fl.flower.whole_messages import ALIVE
from tests.flower.test_fleet_rules import Fake, fake
from tests.processes import wait_until

__all__ = ["fake"]  # a fixture


def ask(fake: Fake) -> bytes:
    """Return the bytes of a request that says that the node is alive."""
    headers = {**fake.server.headers(fake.server.key), "content-length": "0", "host": "x"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {ALIVE} HTTP/1.1\r\n{lines}\r\n".encode()


def silence(fake: Fake) -> None:
    """Let the last sign of life of the node be long ago."""
    fake.link._state.nodes[fake.node_id].online_until = 0.0
    fake.link._presence._looked_at = -presence._PAUSE_SECONDS


def test_a_silent_node_with_an_open_connection_keeps_its_order(fake: Fake) -> None:
    """Its machine may be busy; a node that is killed has no connection, and is not waited for."""
    (sent,) = Messenger(fake.link.grid).send(
        [Request(fake.node_id, RecordDict())], "train", "1", 600.0
    )
    with fake.server.connect() as connection:
        connection.sendall(ask(fake))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        silence(fake)
        assert fake.link.grid.arrived([sent]) == []
        assert fake.node_id in fake.link.grid.get_node_ids()
    wait_until(lambda: len(fake.link.connections) == 0)
    silence(fake)
    assert fake.link.grid.arrived([sent]) == [sent]  # with Flower's error in place of a reply
    assert fake.node_id not in fake.link.grid.get_node_ids()


def test_a_node_that_says_that_it_leaves_is_gone_at_once(fake: Fake) -> None:
    with fake.server.connect() as connection:
        connection.sendall(ask(fake))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert fake.node_id in fake.link.grid.get_node_ids()
        left = fake.post("deactivate-node", DeactivateNodeRequest(node_id=fake.node_id))
        assert left.status_code == 200
        fake.link._presence._looked_at = -presence._PAUSE_SECONDS
        assert fake.node_id not in fake.link.grid.get_node_ids()
