"""Waiting for nodes to connect, and telling the operator which are still missing."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from dynamite_fl.flower.roster import Roster

_POLL_SECONDS = 0.02  # between two checks for new nodes
_MAX_NAMES = 20  # in one list


@dataclass(frozen=True)
class WaitStatus:
    """Which nodes are connected and which are missing. Its text is a sentence for the operator.

    Attributes:
        expected: The number of nodes to wait for.
        connected: The names of the connected nodes.
        missing: The names of the missing nodes, where keys or an earlier part of the training
            tell them; empty otherwise.

    Example:
        >>> print(WaitStatus(10, ("cam-1", "cam-2", "cam-3")))
        Waiting for 10 nodes: 3 connected (cam-1, cam-2, cam-3), 7 missing
        >>> print(WaitStatus(2, ("ward",), ("lab",)))
        Waiting for 2 nodes: 1 connected (ward), 1 missing (lab)
    """

    expected: int
    connected: tuple[str, ...]
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = len(self.connected)
        nodes = "node" if self.expected == 1 else "nodes"
        return (
            f"Waiting for {self.expected} {nodes}: {count} connected{_listed(self.connected)}, "
            f"{max(self.expected - count, 0)} missing{_listed(self.missing)}"
        )


def wait_for_nodes(
    roster: Roster,
    expected: int,
    seconds: float,
    on_change: Callable[[WaitStatus], None] | None = None,
) -> None:
    """Wait until ``expected`` nodes are connected, for at most some seconds.

    Args:
        roster: The devices of the training.
        expected: The number of nodes to wait for.
        seconds: The longest time to wait.
        on_change: Called when the wait begins and whenever a node has come or gone.
    """
    ends = time.monotonic() + seconds
    shown: WaitStatus | None = None
    roster.update()
    while len(roster.usable) < expected and time.monotonic() < ends:
        status = wait_status(roster, expected)
        if on_change is not None and status != shown:
            on_change(status)
            shown = status
        time.sleep(_POLL_SECONDS)
        roster.update()


def wait_status(roster: Roster, expected: int) -> WaitStatus:
    """Return which nodes are connected and, where it is known, which are missing."""
    connected = roster.connected_names
    known = set(roster.names) | set(roster.registered.values()) - set(roster.conduct.excluded)
    missing = tuple(sorted(known - set(connected)))
    if len(missing) != expected - len(connected):  # it is open which of them will come
        missing = ()
    return WaitStatus(expected, tuple(connected), missing)


def _listed(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f" ({', '.join(names[:_MAX_NAMES])}{more})"
