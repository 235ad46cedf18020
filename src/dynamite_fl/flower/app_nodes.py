"""The nodes of a Flower app of the user's own. They have no names, only Flower's ids."""

import time
from dataclasses import dataclass, field
from typing import Any

from dynamite_fl.errors import TooFewNodes
from dynamite_fl.flower.messenger import Grid

_POLL_SECONDS = 0.05


@dataclass
class AppNodes:
    """Which node has which place in the fleet.

    A node that has gone leaves its place to the next one that comes. Flower gives a node another id
    when it connects again, so this is often the same node.

    Attributes:
        grid: The Grid.
        least: The number of nodes that a round needs.
        clients: The most nodes that take part; None for those that are connected at first.
        connected: The ids of the connected nodes, by place.
    """

    grid: Grid
    least: int
    clients: int | None
    connected: dict[int, int] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """The number of places."""
        return self.clients if self.clients is not None else len(self.connected)

    def enroll(self, seconds: float) -> dict[int, int]:
        """Wait for the first nodes, and return their ids by place.

        Raises:
            TooFewNodes: Too few nodes have connected within so many seconds.
        """
        self.update()
        until = time.monotonic() + seconds
        while len(self.connected) < self.least:
            if time.monotonic() >= until:
                raise self._too_few(seconds)
            time.sleep(_POLL_SECONDS)
            self.update()
        self.clients = self.capacity
        return self.connected

    def of_cohort(self, cohort: list[int], seconds: float, ends: float) -> dict[int, int]:
        """Wait for the nodes of a cohort, and return the ids of those that are connected.

        Args:
            cohort: The places of the nodes.
            seconds: The longest time to wait.
            ends: The time of the deadline. If too few nodes are connected then, none is returned.

        Raises:
            TooFewNodes: Too few nodes are connected after so many seconds.
        """
        until = time.monotonic() + seconds
        while True:
            self.update()
            nodes = {place: self.connected[place] for place in cohort if place in self.connected}
            if len(nodes) >= min(self.least, len(cohort)):
                return nodes
            if time.monotonic() >= ends:
                return {}
            if time.monotonic() >= until:
                raise self._too_few(seconds)
            time.sleep(_POLL_SECONDS)

    def update(self) -> None:
        """Note which nodes have gone, and give their places to nodes that are new."""
        online = set(self.grid.get_node_ids())
        staying = {place: node for place, node in self.connected.items() if node in online}
        new = sorted(online - set(staying.values()))
        places = range(len(online) + len(staying) if self.clients is None else self.clients)
        free = [place for place in places if place not in staying]
        self.connected = dict(sorted({**staying, **dict(zip(free, new, strict=False))}.items()))

    def _too_few(self, seconds: float) -> TooFewNodes:
        return TooFewNodes(
            f"{len(self.connected)} nodes are connected after {seconds:g} s, and the strategy "
            f"needs {self.least}: start more nodes, or lower its min_available_nodes and "
            "min_train_nodes"
        )


def least_nodes(strategy: Any, own: str = "min_train_nodes") -> int:
    """Return the number of nodes without which a strategy of Flower would wait forever.

    Example:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> least_nodes(FedAvg(min_train_nodes=5))
        5
    """
    return max(int(setting_of(strategy, name, 1)) for name in ("min_available_nodes", own))


def setting_of(strategy: Any, name: str, default: float | str) -> Any:
    """Return a setting of a strategy, or of the one that it wraps; the default if there is none.

    Example:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> setting_of(FedAvg(min_train_nodes=5), "min_train_nodes", 1)
        5
    """
    while strategy is not None:
        if hasattr(strategy, name):
            return getattr(strategy, name)
        strategy = getattr(strategy, "strategy", None)
    return default
