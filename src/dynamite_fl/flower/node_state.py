"""A device's state between rounds, on its own disk.

Two files take turns, so that the state before the last round is kept too. A server that died in
the middle of a round asks for that round again, and the device then computes the same reply.

A device whose samples arrive while it trains keeps them in a third file. It is written only when
samples have arrived, before the state of that round, so that the two always fit together.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dynamite_fl.client.local_data.store import SampleStore, StoreState
from dynamite_fl.client.messages import ClientState
from dynamite_fl.errors import InvalidInput, RunFolderError
from dynamite_fl.training.codec import Record, load_record, save_record


@dataclass(frozen=True, eq=False)
class _SavedState:
    """The client's state after a round of a training."""

    training: str
    round_index: int
    state: ClientState


@dataclass(frozen=True, eq=False)
class _SavedSamples:
    """The samples on the device in a round of a training."""

    training: str
    store: StoreState


@dataclass(frozen=True)
class StateFiles:
    """The state files of one device.

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
        """Return the state that a round begins with: that of the last round before it."""
        last = self._last_before(training, round_index)
        return ClientState() if last is None else last[1].state

    def save(self, training: str, round_index: int, state: ClientState) -> None:
        """Save the state after a round, and keep the one before it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        last = self._last_before(training, round_index)
        replaceable = [path for path in self._paths if last is None or path != last[0]]
        save_record(replaceable[0], _SavedState(training, round_index, state))

    def save_samples(self, training: str, store: StoreState) -> None:
        """Save the samples on the device."""
        self.folder.mkdir(parents=True, exist_ok=True)
        save_record(self._samples, _SavedSamples(training, store))

    def restore_samples(self, store: SampleStore) -> str | None:
        """Put the saved samples, if there are any, into a store, and return their training.

        Raises:
            InvalidInput: The samples are of another model or buffer size.
        """
        saved = _load(self._samples, _SavedSamples)
        if saved is None:
            return None
        state = saved.store
        last_round = self._last_round(saved.training)
        if last_round > (state.round_index or 0):  # no samples arrived in the rounds since
            nothing = np.empty(0, dtype=np.int64)
            state = replace(state, round_index=last_round, new_rows=nothing)
        try:
            store.restore(state)
        except InvalidInput as error:
            raise InvalidInput(f"{self._samples}: {error}") from None
        return saved.training

    @property
    def _paths(self) -> tuple[Path, Path]:
        return self.folder / "state-a.safetensors", self.folder / "state-b.safetensors"

    @property
    def _samples(self) -> Path:
        return self.folder / "samples.safetensors"

    def _saved(self, training: str) -> list[tuple[Path, _SavedState]]:
        """Return the saved states of a training, with their files."""
        loaded = [(path, _load(path, _SavedState)) for path in self._paths]
        return [
            (path, saved)
            for path, saved in loaded
            if saved is not None and saved.training == training
        ]

    def _last_before(self, training: str, round_index: int) -> tuple[Path, _SavedState] | None:
        earlier = [
            (path, saved)
            for path, saved in self._saved(training)
            if saved.round_index < round_index
        ]
        return max(earlier, key=lambda pair: pair[1].round_index, default=None)

    def _last_round(self, training: str) -> int:
        return max((saved.round_index for _, saved in self._saved(training)), default=0)


def _load(path: Path, kind: type[Record]) -> Record | None:
    """Return the record in a file; None if it cannot be used, because a device can start anew."""
    try:
        return load_record(path, kind) if path.exists() else None
    except RunFolderError:
        return None
