"""Limits on connections, so that strangers cannot use up the server's sockets.

A connection is a stranger's until a request with a known key comes over it. Strangers have a few
seconds for TLS and for the first lines of a request. If there are too many connections, in all or
from one address, the oldest one of a stranger is closed for a new one. Connections of known nodes
are never closed for others, but each node has few: its oldest one is closed for one too many. Some
files are always left for the training itself.
"""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SECONDS_FOR_STRANGERS = 10.0  # from its connection to the headers of its first request

_LEAST_RESERVE = 64  # open files that are left for everything else
_RESERVE_SHARE = 1 / 8  # of the limit of open files, likewise
_LEAST_CONNECTIONS = 16
_MOST_CONNECTIONS = 20_000
_MOST_PER_NODE = 16  # a node needs two or three

Address = tuple[str, int]  # of the other side: its host and port


@dataclass(eq=False)
class _Connection:
    close: Callable[[], object]
    is_known: bool = False
    node: bytes = b""  # the public key of a known node


class Connections:
    """The open connections of a server.

    Args:
        most: The largest number of connections.
        most_per_host: The largest number of strangers' connections from one host.

    Example:
        >>> connections = Connections(most=2, most_per_host=2)
        >>> closed = []
        >>> for port in (1, 2, 3):
        ...     _ = connections.add(("10.0.0.9", port), lambda port=port: closed.append(port))
        >>> closed  # the oldest made room for the newest
        [1]
    """

    def __init__(self, most: int, most_per_host: int) -> None:
        self._most, self._most_per_host = most, most_per_host
        self._open: dict[Address, _Connection] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def nodes(self) -> set[bytes]:
        """The public keys of the nodes that have an open connection; any thread may ask."""
        return {connection.node for connection in list(self._open.values()) if connection.node}

    def add(self, address: Address, close: Callable[[], object]) -> bool:
        """Note a new connection, and close that of a stranger if there are too many.

        Args:
            address: The address of the other side.
            close: Closes the connection.

        Returns:
            False if all connections are those of known nodes, so that this one must be closed.
        """
        from_host = [a for a, c in self._open.items() if a[0] == address[0] and not c.is_known]
        if len(from_host) >= self._most_per_host:
            self._close(from_host[0])
        if len(self._open) >= self._most:
            strangers = (a for a, c in self._open.items() if not c.is_known)
            oldest = next(strangers, None)
            if oldest is None:
                return False
            self._close(oldest)
        self._open[address] = _Connection(close)
        return True

    def trust(self, address: Address, node: bytes = b"") -> None:
        """Note that a request of a known node came over a connection.

        Args:
            address: The address of the other side.
            node: The public key of the node; empty if it is not known yet.
        """
        connection = self._open.get(address)
        if connection is None or (connection.is_known and connection.node == node):
            return
        of_node = [a for a, c in self._open.items() if node and c.node == node]
        if len(of_node) >= _MOST_PER_NODE:
            self._close(of_node[0])
        connection.is_known, connection.node = True, node

    def close_stranger(self, address: Address) -> None:
        """Close a connection whose time is over, unless it is that of a known node."""
        connection = self._open.get(address)
        if connection is not None and not connection.is_known:
            self._close(address)

    def remove(self, address: Address) -> None:
        """Forget a connection that is closed."""
        self._open.pop(address, None)

    def _close(self, address: Address) -> None:
        self._open.pop(address).close()


def connections_that_fit() -> Connections:
    """Return limits that leave enough open files to the rest of this process."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    reserve = max(_LEAST_RESERVE, int(_RESERVE_SHARE * limit))
    most = min(max(limit - _open_files() - reserve, _LEAST_CONNECTIONS), _MOST_CONNECTIONS)
    return Connections(most, max(most // 2, _LEAST_CONNECTIONS))


def _open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())
