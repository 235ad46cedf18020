"""A device's store of samples that arrive while it trains, in bounded memory."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.local_data.sample_format import SampleFormat
from dynamite_fl.client.local_data.sources import Delivery, Source
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.stream.buffer import NOTHING, Buffer, Storage
from dynamite_fl.task.tensor_samples import TensorSamples


@dataclass(frozen=True, eq=False)
class StoreState:
    """The content of a store, to be saved on disk; everything that a restarted device needs.

    Attributes:
        inputs: The inputs in the rows that have been used, (r, ...).
        targets: The targets in the rows that have been used, (r, ...).
        buffer: The rows of the buffer, and how many samples have arrived.
        taken: The names of deliveries that the source must not deliver again.
        round_index: The last round for which samples were taken in; None if there is none.
        new_rows: The rows of the buffer that were new in that round.
    """

    inputs: Tensor
    targets: Tensor
    buffer: Buffer
    taken: tuple[str, ...]
    round_index: int | None
    new_rows: IntArray


class SampleStore:
    """The samples on a device: an ``IncomingSamples`` of its ``Client``.

    The store has twice as many rows as the buffer holds samples. A sample that leaves the buffer
    leaves its row to a new sample, unless the client still needs it: a probe begins with the last
    round's batch.

    Samples are taken in once a round. If a round is asked for again, because the server or the
    round failed, the store gives the same answer, and the client computes the same reply.

    Args:
        sample_format: The format that samples must have.
        storage: The policy by which samples are stored; it must have a size.
        source: The source of the samples.

    Attributes:
        inputs: The inputs that rows point into.
        targets: The targets that rows point into.
    """

    def __init__(self, sample_format: SampleFormat, storage: Storage, source: Source) -> None:
        if storage.size is None:
            raise InvalidInput(
                "a device stores a limited number of samples: use a buffer that has a size"
            )
        self._format, self._storage, self._source = sample_format, storage, source
        rows = 2 * storage.size
        self.inputs = torch.zeros(
            (rows, *sample_format.input_shape), dtype=sample_format.input_type
        )
        self.targets = torch.zeros(
            (rows, *sample_format.target_shape), dtype=sample_format.target_type
        )
        self._used_rows = 0
        self._buffer = NOTHING
        self._round_index: int | None = None
        self._new_rows = NOTHING.rows

    @property
    def samples(self) -> TensorSamples:
        """The samples that rows point into, for ``Client``."""
        return TensorSamples(self.inputs, self.targets)

    @property
    def seen(self) -> int:
        """The number of samples that have arrived so far, stored or not."""
        return self._buffer.seen

    @property
    def state(self) -> StoreState:
        """The content of the store; save it before the client's state of the same round."""
        return StoreState(
            inputs=self.inputs[: self._used_rows],
            targets=self.targets[: self._used_rows],
            buffer=self._buffer,
            taken=self._source.taken,
            round_index=self._round_index,
            new_rows=self._new_rows,
        )

    def restore(self, state: StoreState) -> None:
        """Go on from a saved state.

        Raises:
            InvalidInput: The state is of another model or buffer size.
        """
        size = self._storage.size or 0
        for name, saved, own in (
            ("inputs", state.inputs, self.inputs),
            ("targets", state.targets, self.targets),
        ):
            if saved.shape[1:] != own.shape[1:] or saved.dtype != own.dtype:
                raise InvalidInput(
                    f"the saved {name} are {saved.dtype} of shape {tuple(saved.shape[1:])}, but "
                    f"the model's are {own.dtype} of {tuple(own.shape[1:])}: was it another model?"
                )
        if len(state.inputs) > len(self.inputs) or (
            state.buffer.rows.size != min(size, state.buffer.seen)
        ):
            raise InvalidInput(
                f"{state.buffer.rows.size} of {state.buffer.seen} samples were saved, but the "
                f"buffer's size is {size}: was it another size?"
            )
        self._used_rows = len(state.inputs)
        self.inputs[: self._used_rows] = state.inputs
        self.targets[: self._used_rows] = state.targets
        self._buffer, self._source.taken = state.buffer, state.taken
        self._round_index, self._new_rows = state.round_index, state.new_rows

    def begin_training(self) -> None:
        """Forget the last round's number, because another training counts its rounds anew."""
        self._round_index = None

    def receive(
        self,
        round_index: int,
        buffer: Buffer | None,  # noqa: ARG002  the store's own buffer is never older
        needed: IntArray,
    ) -> tuple[Buffer, IntArray]:
        """Take in all samples that have arrived, once a round; see ``IncomingSamples``.

        Raises:
            InvalidInput: Samples do not have the model's format; those before them are stored.
        """
        if round_index != self._round_index:
            self._new_rows = self._take_in(needed)
            self._round_index = round_index
        return self._buffer, self._new_rows

    def _take_in(self, needed: IntArray) -> IntArray:
        """Store all deliveries, and return the rows of those samples that are in the buffer."""
        new_rows = NOTHING.rows
        for delivery in self._source.deliveries():
            rows = self._store(delivery, needed)
            new_rows = np.concatenate([new_rows[~np.isin(new_rows, rows)], rows])
        return new_rows[np.isin(new_rows, self._buffer.rows)]

    def _store(self, delivery: Delivery, needed: IntArray) -> IntArray:
        """Store a delivery, and return the rows of those of its samples that are stored."""
        inputs, targets = self._format.tensors(delivery)
        first = len(self.inputs)  # the numbers of new samples are not numbers of rows
        after, places = self._storage.take(0, self._buffer, first + np.arange(len(inputs)))
        stored = torch.from_numpy(after.rows[places] - first)
        rows = self._free_rows(after.rows, needed)[: places.size]
        self.inputs[torch.from_numpy(rows)] = inputs[stored]
        self.targets[torch.from_numpy(rows)] = targets[stored]
        buffer_rows = after.rows.copy()
        buffer_rows[places] = rows
        self._buffer = replace(after, rows=buffer_rows)
        self._used_rows = max(self._used_rows, int(rows.max(initial=-1)) + 1)
        return rows

    def _free_rows(self, held: IntArray, needed: IntArray) -> IntArray:
        """Return the rows that are neither held nor needed. They always suffice for new samples."""
        is_free = np.ones(len(self.inputs), dtype=bool)
        is_free[held[held < is_free.size]] = False
        is_free[needed] = False
        return np.flatnonzero(is_free)
