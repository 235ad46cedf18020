"""A device's own storage for samples that stream in, in as much memory as it is given."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamite_fl.client.flat import FlatModel
from dynamite_fl.client.sources import Portion, Source
from dynamite_fl.records import IntArray
from dynamite_fl.stream.buffer import NOTHING, Buffer, Storage


@dataclass(frozen=True)
class Kind:
    """What samples must be like to be learned from.

    Attributes:
        inputs: Shape of one sample's inputs.
        targets: Shape of one sample's target.
        input_type: Of the inputs.
        target_type: Of the targets; where it is whole, any whole type will do.
        classes: Targets are labels below this; None where they are none.
    """

    inputs: tuple[int, ...]
    targets: tuple[int, ...]
    input_type: torch.dtype
    target_type: torch.dtype
    classes: int | None

    def tensors(self, portion: Portion) -> tuple[Tensor, Tensor]:
        """A portion's inputs and targets.

        Raises:
            ValueError: They are not of this kind; the message names the portion.
        """
        inputs = _tensor(portion.name, "inputs", portion.inputs)
        targets = _tensor(portion.name, "targets", portion.targets)
        if not self.target_type.is_floating_point and not targets.is_floating_point():
            targets = targets.to(self.target_type)
        _check(portion.name, "inputs", inputs, (len(inputs), *self.inputs), self.input_type)
        _check(portion.name, "targets", targets, (len(inputs), *self.targets), self.target_type)
        self._check_values(portion.name, inputs, targets)
        return inputs, targets

    def _check_values(self, name: str, inputs: Tensor, targets: Tensor) -> None:
        for what, found in (("inputs", inputs), ("targets", targets)):
            if found.is_floating_point() and not bool(torch.isfinite(found).all()):
                raise ValueError(f"{name}: {what} are not all finite")
        if self.classes is None or not targets.numel():
            return
        for label in (int(targets.min()), int(targets.max())):
            if not 0 <= label < self.classes:
                raise ValueError(
                    f"{name}: a label is {label}, but the model's are 0 to {self.classes - 1}"
                )


def _tensor(name: str, what: str, array: NDArray[Any]) -> Tensor:
    if array.ndim == 0:
        raise ValueError(f"{name}: {what} are a single number, not one for each sample")
    try:
        return torch.from_numpy(np.ascontiguousarray(array))
    except TypeError:
        raise ValueError(f"{name}: {what} are {array.dtype}, which are no numbers") from None


def _check(name: str, what: str, found: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if found.shape != shape:
        raise ValueError(
            f"{name}: {what} have shape {tuple(found.shape)}, but the model learns from {shape}"
        )
    if found.dtype != dtype:
        raise ValueError(f"{name}: {what} are {found.dtype}, but the model learns from {dtype}")


def kind_of(model: FlatModel) -> Kind:
    """What samples a model learns from, by those of its task and by its outputs.

    Targets that are whole numbers are labels, if there is more than one output.
    """
    task = model.task
    inputs, targets = task.train_inputs[:1], task.train_targets[:1]
    with torch.no_grad():
        outputs = model.outputs(model.first_weights, inputs)
    labels = outputs.dim() == 2 and outputs.shape[1] > 1 and not targets.is_floating_point()
    return Kind(
        inputs=tuple(inputs.shape[1:]),
        targets=tuple(targets.shape[1:]),
        input_type=inputs.dtype,
        target_type=targets.dtype,
        classes=outputs.shape[1] if labels else None,
    )


@dataclass(frozen=True, eq=False)
class StoreState:
    """All that a restarted device needs; ``engine/pack.py`` writes and reads it.

    Attributes:
        inputs: Of all rows, (2 B, ...).
        targets: Likewise.
        buffer: Which rows are the buffer, and how many samples have arrived.
        taken: What the source must know.
    """

    inputs: Tensor
    targets: Tensor
    buffer: Buffer
    taken: tuple[str, ...]


class Store:
    """Samples on a device: what has arrived, as ``Client`` receives it.

    It has rows for two buffers. A sample that leaves the buffer leaves its row to others, but if
    the client still needs it, since its next probe begins with its last batch, it stays.

    What is stored is what counts: should a client come with an older buffer, because its last
    round failed half-way, it goes on from the newest.

    Args:
        kind: What samples must be like.
        storage: What is kept of them; it must have a size.
        source: Where they come from.
        client: The device's number, which its draws depend on.
        state: To go on from; None to begin.

    Attributes:
        inputs: To give to ``Client``, as are ``targets``.
    """

    def __init__(
        self,
        kind: Kind,
        storage: Storage,
        source: Source,
        *,
        client: int = 0,
        state: StoreState | None = None,
    ) -> None:
        if storage.size is None:
            raise ValueError("a device's own storage needs a size: use a buffer that has one")
        self._kind, self._storage, self._source, self._client = kind, storage, source, client
        rows = 2 * storage.size
        self.inputs = torch.zeros((rows, *kind.inputs), dtype=kind.input_type)
        self.targets = torch.zeros((rows, *kind.targets), dtype=kind.target_type)
        self._buffer = NOTHING
        if state is not None:
            self._restore(state)

    @property
    def seen(self) -> int:
        """How many samples have arrived so far, stored or not."""
        return self._buffer.seen

    @property
    def state(self) -> StoreState:
        """To be saved together with the client's state."""
        return StoreState(self.inputs, self.targets, self._buffer, self._source.taken)

    def receive(
        self,
        round_index: int,  # noqa: ARG002  samples come by the clock, not by rounds
        buffer: Buffer | None,  # noqa: ARG002  ours is never older
        needed: IntArray,
    ) -> tuple[Buffer, IntArray]:
        """What ``Client`` asks when a round begins: takes in all that has arrived.

        Raises:
            ValueError: Samples are not of the model's kind; those before them are stored.
        """
        fresh = NOTHING.rows
        for portion in self._source.portions():
            new = self._take(portion, needed)
            fresh = np.concatenate([fresh[~np.isin(fresh, new)], new])
        return self._buffer, fresh[np.isin(fresh, self._buffer.rows)]

    def _take(self, portion: Portion, needed: IntArray) -> IntArray:
        """Store a portion, and return the rows of what is stored of it."""
        inputs, targets = self._kind.tensors(portion)
        numbers = np.arange(len(inputs)) + len(self.inputs)  # that are no rows
        after, places = self._storage.take(self._client, self._buffer, numbers)
        chosen = after.rows[places] - len(self.inputs)
        rows = after.rows.copy()
        rows[places] = self._free_rows(after.rows, needed)[: places.size]
        where, which = torch.from_numpy(rows[places]), torch.from_numpy(chosen)
        self.inputs[where], self.targets[where] = inputs[which], targets[which]
        self._buffer = Buffer(rows, after.seen)
        return np.asarray(rows[places])

    def _free_rows(self, held: IntArray, needed: IntArray) -> IntArray:
        """Those that are neither held nor needed: there are as many as the buffer has to take."""
        is_free = np.ones(len(self.inputs), dtype=bool)
        is_free[held[held < is_free.size]] = False
        is_free[needed] = False
        return np.flatnonzero(is_free)

    def _restore(self, state: StoreState) -> None:
        for name, found in (("inputs", state.inputs), ("targets", state.targets)):
            mine: Tensor = getattr(self, name)
            if found.shape != mine.shape or found.dtype != mine.dtype:
                raise ValueError(
                    f"the saved {name} are {found.dtype} of shape {tuple(found.shape)}, but here "
                    f"{mine.dtype} of {tuple(mine.shape)}: was it another model or buffer size?"
                )
            mine.copy_(found)
        self._buffer = state.buffer
        self._source.taken = state.taken
