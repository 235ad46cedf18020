"""Numbered samples, in lists and in files, and a device that learns from files."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_data.device_client import device_client
from dynamite_fl.client.local_data.sample_format import SampleFormat
from dynamite_fl.client.local_data.sources import Delivery
from dynamite_fl.client.local_data.store import SampleStore, StoreState
from dynamite_fl.client.messages import Order
from dynamite_fl.stream.buffer import NOTHING, Storage
from tests.trainings import digits

FORMAT = SampleFormat((2,), (), torch.float32, torch.int64, classes=3)
NOTHING_NEEDED = NOTHING.rows


def numbered(count: int) -> Iterator[tuple[NDArray[Any], int]]:
    """Yield samples: sample n has inputs (n, -n) and the label n mod 3."""
    for n in range(count):
        yield np.array([n, -n], dtype=np.float32), n % 3


class ListSource:
    """A source of numbered samples, the same number of them at each call."""

    def __init__(self, each_round: int) -> None:
        self.taken: tuple[str, ...] = ()
        self._each_round = each_round
        self._samples = numbered(10**6)

    def deliveries(self) -> Iterator[Delivery]:
        for x, y in islice(self._samples, self._each_round):
            yield Delivery("a sample", x[None], np.array([y]))


def stored(store: SampleStore) -> list[int]:
    """Return the numbers of the samples in the buffer; check their inputs and targets."""
    rows = store.state.buffer.rows
    for x, y in zip(store.inputs[rows].tolist(), store.targets[rows].tolist(), strict=True):
        assert x[1] == -x[0]
        assert y == x[0] % 3
    return [int(x) for x in store.inputs[rows, 0]]


def put(folder: Path, name: str, count: int, first: int = 0, **arrays: NDArray[Any] | None) -> None:
    samples = list(numbered(first + count))[first:]
    default = {
        "inputs": np.array([x for x, _ in samples]).reshape(-1, 2).astype(np.float32),
        "targets": np.array([y for _, y in samples], dtype=np.uint8),
    }
    saved = {key: array for key, array in {**default, **arrays}.items() if array is not None}
    with (folder / name).open("wb") as file:
        np.savez(file, **saved)  # type: ignore[arg-type]


def order(round_index: int, weights: torch.Tensor, local_steps: int) -> Order:
    return Order(0, round_index, weights, local_steps, 16, 0.1, probe=True, remember=True)


def arrive(folder: Path, k: int) -> None:
    task = digits()
    inputs, targets = task.train.batch(np.arange(40 * k, 40 * (k + 1)))
    np.savez(folder / f"{k:03}.npz", inputs=inputs.numpy(), targets=targets.numpy())


def device(folder: Path, state: StoreState | None = None) -> tuple[Client, SampleStore]:
    client = device_client(
        FlatModel(digits(), seed=0), incoming=folder, storage=Storage("reservoir", 60)
    )
    assert isinstance(client.incoming, SampleStore)
    if state is not None:
        client.incoming.restore(state)
    return client, client.incoming
