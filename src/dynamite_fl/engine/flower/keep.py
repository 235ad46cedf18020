"""What a device carries from round to round, on its own disk.

Two files take turns, so that the state before the last round is there too: a server that died
in the middle of a round asks for that round again, and gets the same reply.
"""

from dataclasses import dataclass
from pathlib import Path

from dynamite_fl.client.client import ClientState
from dynamite_fl.engine.pack import load_record, save_record


@dataclass(frozen=True, eq=False)
class _Kept:
    """The state after some round of some training."""

    training: str
    round_index: int
    state: ClientState


@dataclass(frozen=True)
class StateFiles:
    """The states of one device.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = StateFiles(Path(folder))
        ...     files.save("monday", 1, ClientState(gradient_variance=1.0))
        ...     files.save("monday", 2, ClientState(gradient_variance=2.0))
        ...     [files.before("monday", k).gradient_variance for k in (1, 2, 3)]
        [None, 1.0, 2.0]
    """

    folder: Path

    def before(self, training: str, round_index: int) -> ClientState:
        """The state to begin this round with: that of the last round played before it."""
        kept = self._last(training, round_index)
        return ClientState() if kept is None else kept[1].state

    def save(self, training: str, round_index: int, state: ClientState) -> None:
        """Keep the state after this round, and the one before it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = self._last(training, round_index)
        paths = [path for path in self._paths if kept is None or path != kept[0]]
        save_record(paths[0], _Kept(training, round_index, state))

    @property
    def _paths(self) -> tuple[Path, Path]:
        return self.folder / "state-a.safetensors", self.folder / "state-b.safetensors"

    def _last(self, training: str, round_index: int) -> tuple[Path, _Kept] | None:
        found = [(path, kept) for path in self._paths if (kept := _load(path)) is not None]
        ours = [
            (path, kept)
            for path, kept in found
            if kept.training == training and kept.round_index < round_index
        ]
        return max(ours, key=lambda each: each[1].round_index, default=None)


def _load(path: Path) -> _Kept | None:
    """What a file holds; None if it cannot be used, as the device can begin anew."""
    try:
        return load_record(path, _Kept) if path.exists() else None
    except ValueError:
        return None
