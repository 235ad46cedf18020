"""Which nodes are left out because of implausible replies, and for how long.

The first implausible reply of a node costs it two rounds, the second four. After the third, the
node is excluded until the operator says otherwise: its name is a line in the file ``excluded.txt``
of the run folder. The operator deletes the line to let the node in again, or adds a name to keep a
node out. The file is read before each round.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path

from dynamite_fl._atomic import write_atomically
from dynamite_fl._regular import read_regular_text
from dynamite_fl.errors import OutputError
from dynamite_fl.flower.plain_text import plain

FILE_NAME = "excluded.txt"

_log = logging.getLogger(__name__)
_MOST_OFFENCES = 3  # the last one excludes
_FIRST_PAUSE = 2  # rounds; every further offence doubles it
_ROUNDS_TO_FORGIVE = 20  # sound replies in a row, for which one offence is forgotten
_MOST_BYTES = 10_000_000
_HEADING = "# Nodes that take no part. Delete a line to let its node in again.\n"


@dataclass
class _Record:
    offences: int = 0
    left_out_until: int = 0  # the first round in which it takes part again
    sound_replies: int = 0


@dataclass
class Conduct:
    """The record of what nodes did wrong.

    Attributes:
        path: The file of excluded nodes; None to keep none.
        excluded: Why each excluded node is out, by its name.
    """

    path: Path | None = None
    excluded: dict[str, str] = field(default_factory=dict)
    _records: dict[str, _Record] = field(default_factory=dict)

    def read(self) -> None:
        """Read what the operator says about excluded nodes."""
        if self.path is None:
            return
        try:
            lines = read_regular_text(self.path, _MOST_BYTES).splitlines()
        except FileNotFoundError:
            lines = []
        except OSError:  # the last known state is better than none
            return
        pairs = [line.partition("\t") for line in lines if line.strip() and line[0] != "#"]
        excluded = {name.strip(): reason.strip() for name, _, reason in pairs}
        for name in self.excluded.keys() - excluded.keys():
            _log.info("%s may take part again, because %s says so.", name, self.path.name)
            self._records.pop(name, None)
        self.excluded = excluded

    def offend(self, name: str, round_index: int, reason: str) -> None:
        """Note an implausible reply, and leave its sender out for a while or for good."""
        record = self._records.setdefault(name, _Record())
        record.offences += 1
        record.sound_replies = 0
        if record.offences >= _MOST_OFFENCES:
            self._exclude(name, f"in round {round_index}: {plain(reason)}")
            return
        pause = _FIRST_PAUSE * 2 ** (record.offences - 1)
        record.left_out_until = round_index + pause + 1
        _log.warning(
            "%s is implausible in round %d and left out of the next %d rounds: %s.",
            name,
            round_index,
            pause,
            reason,
        )

    def praise(self, name: str) -> None:
        """Note a sound reply; after 20 of them in a row, one offence is forgotten."""
        record = self._records.get(name)
        if record is None:
            return
        record.sound_replies += 1
        if record.sound_replies >= _ROUNDS_TO_FORGIVE:
            record.offences, record.sound_replies = record.offences - 1, 0
            if record.offences <= 0:
                del self._records[name]

    def is_left_out(self, name: str, round_index: int) -> bool:
        """Return whether a node does not take part in a round."""
        record = self._records.get(name)
        is_paused = record is not None and round_index < record.left_out_until
        return is_paused or name in self.excluded

    def _exclude(self, name: str, reason: str) -> None:
        self.read()  # what the operator has written since is kept
        self.excluded[name] = reason
        _log.warning(
            "%s is excluded until you delete its line in %s: %s.",
            name,
            FILE_NAME if self.path is None else self.path,
            reason,
        )
        self._write()

    def _write(self) -> None:
        if self.path is None:
            return
        lines = [f"{name}\t{reason}\n" for name, reason in self.excluded.items()]
        try:
            write_atomically(self.path, _HEADING + "".join(lines))
        except OutputError as error:  # a full disk must not end the training here
            _log.warning("The excluded nodes are not written down: %s.", error)
