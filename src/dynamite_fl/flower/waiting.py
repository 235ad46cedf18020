"""Waiting for nodes to connect and to reply, and telling the operator which are missing."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from dynamite_fl.flower.roster import Roster

_POLL_SECONDS = 0.02  # between two checks for new nodes
_MAX_NAMES = 20  # in one list


@dataclass(frozen=True)
class WaitStatus:
    """Which nodes are there and which are missing. Its text is a sentence for the operator.

    Attributes:
        expected: The number of nodes to wait for.
        present: The names of the nodes that are connected, or that have replied.
        absent: The names of the nodes that are not, as far as they are known.
        round_index: The round whose replies are waited for; None while nodes connect.

    Example:
        >>> print(WaitStatus(10, ("cam-1", "cam-2", "cam-3")))
        Waiting for 10 nodes: 3 connected (cam-1, cam-2, cam-3), 7 missing
        >>> print(WaitStatus(2, ("ward",), ("lab",)))
        Waiting for 2 nodes: 1 connected (ward), 1 missing (lab)
        >>> print(WaitStatus(2, ("ward",), ("lab", "office")))
        Waiting for 2 nodes: 1 connected (ward), 1 missing (any of lab, office)
        >>> print(WaitStatus(3, ("ward",), ("lab",)))
        Waiting for 3 nodes: 1 connected (ward), 2 missing (lab and others)
        >>> print(WaitStatus(2, ("ward",), ("lab",), round_index=7))
        Waiting for 2 nodes in round 7: 1 replied (ward), 1 missing (lab)
    """

    expected: int
    present: tuple[str, ...]
    absent: tuple[str, ...] = ()
    round_index: int | None = None

    def __str__(self) -> str:
        nodes = "node" if self.expected == 1 else "nodes"
        in_round = "" if self.round_index is None else f" in round {self.round_index:,}"
        done = "connected" if self.round_index is None else "replied"
        missing = max(self.expected - len(self.present), 0)
        which = _listed(self.absent)
        if len(self.absent) > missing:
            which = f"any of {which}"
        elif which and len(self.absent) < missing:
            which = f"{which} and others"
        return (
            f"Waiting for {self.expected} {nodes}{in_round}: {len(self.present)} {done}"
            f"{_in_brackets(_listed(self.present))}, {missing} missing{_in_brackets(which)}"
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
    """Return which nodes are connected and, as far as it is known, which are not."""
    connected = roster.connected_names
    known = set(roster.names) | set(roster.expected_names) | set(roster.registered.values())
    absent = known - set(connected) - set(roster.conduct.excluded)
    return WaitStatus(expected, tuple(connected), tuple(sorted(absent)))


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}"


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""
