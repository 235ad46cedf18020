"""Who takes part: devices by names of their own, whatever node they connect as.

A device has a place in the fleet from when it is first met to the end of the training, so a
device that comes back finds its estimates. Names and places are kept in a file beside the
checkpoint.
"""

import json
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flwr.app import RecordDict

from dynamite_fl.engine.flower.message import (
    INTRODUCE,
    Introduction,
    check_introduction,
    from_content,
)
from dynamite_fl.engine.flower.parcel import Malformed
from dynamite_fl.engine.flower.post import Arrival, Letter, Post
from dynamite_fl.files import write_atomically

_log = logging.getLogger(__name__)
_SECONDS_TO_ANSWER = 60.0  # an introduction asked for this long ago is asked for again
_SECONDS_TO_RETRY = 5.0  # before a node that was turned away is asked again


@dataclass(frozen=True)
class Guest:
    """A device that has introduced itself.

    Attributes:
        node: The number it is connected as.
        about: What it said of itself.
        comm_seconds: How long its introduction was on the way, there and back.
    """

    node: int
    about: Introduction
    comm_seconds: float


@dataclass
class Roster:
    """The devices of a training.

    Attributes:
        post: How to reach them.
        places: How many the fleet has.
        path: Where names are kept; None to forget them.
        most_samples: How many samples a device can believably hold.
        registered: The names that nodes must have, where their keys say so.
        training: A word of its own for each training.
        names: The devices' names, in the order of their places.
        guests: Those that are here, by their places.
    """

    post: Post
    places: int
    path: Path | None = None
    most_samples: int = 10_000_000
    registered: Mapping[int, str] = field(default_factory=dict)
    training: str = field(default_factory=lambda: secrets.token_hex(8))
    names: list[str] = field(default_factory=list)
    guests: dict[int, Guest] = field(default_factory=dict)
    _settled: bool = False
    _asked: dict[str, tuple[int, float]] = field(default_factory=dict)
    _turned_away: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            kept = json.loads(self.path.read_text())
            self.training, self.names = kept["training"], kept["names"]
            self._settled = True

    def settle(self) -> None:
        """Give those who came first their places by their names, whoever was quickest."""
        if not self._settled:
            guests = sorted(self.guests.values(), key=lambda guest: guest.about.name)
            self.guests = dict(enumerate(guests))
            self.names = [guest.about.name for guest in guests]
            self._settled = True
            self._save()

    def look(self) -> None:
        """See who has come and who has gone; it does not wait for anybody."""
        online = set(self.post.grid.get_node_ids())
        for place, guest in list(self.guests.items()):
            if guest.node not in online:
                self.lose(place, "it has gone")
        now = time.monotonic()
        self._turned_away = {n: t for n, t in self._turned_away.items() if n in online and t > now}
        self._ask(online, now)
        self._listen(online)

    def lose(self, place: int, why: str) -> None:
        """Leave a device out until it introduces itself once more."""
        _log.warning("%s is left out: %s", self.names[place], why)
        del self.guests[place]

    def _ask(self, online: set[int], now: float) -> None:
        """Have those whom nobody knows introduce themselves."""
        known = {guest.node for guest in self.guests.values()} | set(self._turned_away)
        known |= {node for node, _ in self._asked.values()}
        letters = [Letter(node, RecordDict()) for node in sorted(online - known)]
        sent = self.post.send(letters, INTRODUCE, "introduction", _SECONDS_TO_ANSWER)
        self._asked |= {each: (node, now) for each, node in sent.items()}

    def _listen(self, online: set[int]) -> None:
        """Welcome those who have answered, in the order of their names."""
        answers: list[tuple[int, Arrival]] = []
        for message_id, (node, asked) in list(self._asked.items()):
            message = self.post.take(message_id)
            if message is not None:
                answers.append((node, Arrival(message, time.monotonic() - asked)))
            if message is not None or node not in online:
                del self._asked[message_id]
        guests = [guest for node, arrival in answers if (guest := self._guest(node, arrival))]
        for guest in sorted(guests, key=lambda each: each.about.name):
            self._welcome(guest)

    def _guest(self, node: int, arrival: Arrival) -> Guest | None:
        try:
            if arrival.fault is not None:
                raise Malformed(arrival.fault)
            about = from_content(arrival.message.content, "introduction", Introduction)
            check_introduction(about, self.most_samples)
            if self.registered.get(node, about.name) != about.name:
                raise Malformed(f"its key is that of {self.registered[node]}, not {about.name}")
        except Malformed as error:
            self._turn_away(node, str(error))
            return None
        return Guest(node, about, max(arrival.seconds - about.seconds, 0.0))

    def _welcome(self, guest: Guest) -> None:
        name = guest.about.name
        if name not in self.names:
            if len(self.names) >= self.places:
                self._turn_away(guest.node, f"all {self.places} places are taken, {name}")
                return
            self.names.append(name)
            self._save()
        place = self.names.index(name)
        if place in self.guests:
            self._turn_away(guest.node, f"there is a {name} already")
            return
        _log.info("%s is here, at place %d", name, place)
        self.guests[place] = guest

    def _turn_away(self, node: int, why: str) -> None:
        _log.warning("node %d is turned away: %s", node, why)
        self._turned_away[node] = time.monotonic() + _SECONDS_TO_RETRY

    def _save(self) -> None:
        if self.path is not None and self._settled:
            kept = {"training": self.training, "names": self.names}
            write_atomically(self.path, json.dumps(kept) + "\n")
