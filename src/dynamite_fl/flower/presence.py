"""Which nodes are there: those with an open connection, and those heard of a short while ago.

Flower counts a node as gone if it has said nothing for 20 s. A node whose machine is busy, or that
shares it with many others, may well be silent for longer, and so may all nodes of a busy server,
which reads late what they say. So that no reply is lost for this, an open connection is a sign of
life too: the operating system closes it when the node's process ends. How long a node may take for
a round is limited by the round's own time.
"""

import time
from typing import Any

from flwr.supercore.constant import NodeStatus
from flwr.supercore.date import now

from dynamite_fl.flower.connections import Connections

_LONGER_SECONDS = 10.0  # that a node with an open connection counts as online from now on
_PAUSE_SECONDS = 1.0  # between two looks at the connections


class Presence:
    """Keeps nodes online that have an open connection.

    Args:
        state: The state of the SuperLink.
        connections: The open connections.
    """

    def __init__(self, state: Any, connections: Connections) -> None:
        self._state, self._connections = state, connections
        self._looked_at = -_PAUSE_SECONDS

    def refresh(self) -> None:
        """Let nodes with an open connection count as online, unless they said that they leave."""
        if time.monotonic() - self._looked_at < _PAUSE_SECONDS:
            return
        self._looked_at = time.monotonic()
        state, until = self._state, now().timestamp() + _LONGER_SECONDS
        keys = self._connections.nodes
        with state.lock:
            for key in keys:
                node = state.nodes.get(state.node_public_key_to_node_id.get(key))
                if node is not None and node.status == NodeStatus.ONLINE:
                    node.online_until = max(node.online_until, until)
