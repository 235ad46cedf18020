"""A device's own samples, in bounded memory."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dynamite_fl.client.client import Client
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_data.incoming import incoming_client
from dynamite_fl.client.local_data.sample_format import SampleFormat, sample_format
from dynamite_fl.client.local_data.sources import Delivery, FolderSource
from dynamite_fl.client.local_data.store import SampleStore, StoreState
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.errors import InvalidInput
from dynamite_fl.stream.buffer import NOTHING, Policy, Storage
from dynamite_fl.training.codec import load_record, save_record
from tests.trainings import digits

FORMAT = SampleFormat((2,), (), torch.float32, torch.int64, classes=3)
NOTHING_NEEDED = NOTHING.rows


def numbered(count: int) -> Iterator[tuple[NDArray[Any], int]]:
    """Sample n has inputs (n, -n) and the label n mod 3."""
    for n in range(count):
        yield np.array([n, -n], dtype=np.float32), n % 3


class ListSource:
    """Numbered samples, so many at each call."""

    def __init__(self, each_round: int) -> None:
        self.taken: tuple[str, ...] = ()
        self._each_round = each_round
        self._samples = numbered(10**6)

    def deliveries(self) -> Iterator[Delivery]:
        for x, y in islice(self._samples, self._each_round):
            yield Delivery("a sample", x[None], np.array([y]))


def stored(store: SampleStore) -> list[int]:
    """The numbers of the samples in the buffer, with their inputs and targets checked."""
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
    found = {key: each for key, each in {**default, **arrays}.items() if each is not None}
    with (folder / name).open("wb") as file:
        np.savez(file, **found)  # type: ignore[arg-type]


@given(
    st.sampled_from(["reservoir", "random", "fifo"]),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(1, 6),
    st.integers(0, 1000),
)
def test_it_holds_what_the_buffer_of_simulated_clients_would(
    policy: Policy, size: int, each_round: int, rounds: int, seed: int
) -> None:
    """Whatever the client still needs is left as it is, and two buffers of rows are enough."""
    storage = Storage(policy, size, seed)
    store = SampleStore(FORMAT, storage, ListSource(each_round))
    expected, batch = NOTHING, NOTHING_NEEDED
    random = np.random.default_rng(seed)
    for k in range(1, rounds + 1):
        kept = store.inputs[batch].clone()
        arrivals = np.arange(expected.seen, expected.seen + each_round)
        expected, places = storage.take(0, expected, arrivals)
        buffer, fresh = store.receive(k, None, batch)
        assert stored(store) == expected.rows.tolist()
        assert sorted(store.inputs[fresh, 0].tolist()) == sorted(expected.rows[places].tolist())
        assert buffer.seen == store.seen == expected.seen
        assert torch.equal(store.inputs[batch], kept)
        if random.random() < 0.7:  # at one local step a batch can be needed for long
            batch = random.choice(buffer.rows, random.integers(1, buffer.rows.size + 1))
    assert len(store.inputs) == 2 * size


def test_files_are_taken_once_in_the_order_of_their_names_and_stay(tmp_path: Path) -> None:
    store = SampleStore(FORMAT, Storage("fifo", 10), FolderSource(tmp_path))
    assert store.receive(1, None, NOTHING_NEEDED)[1].size == 0  # nothing has come
    put(tmp_path, "b.npz", 2, first=3)
    put(tmp_path, "a.npz", 3)
    put(tmp_path, ".c.npz", 5)
    put(tmp_path, "d.npz.part", 5)
    (tmp_path / "notes.txt").write_text("not samples")
    assert store.receive(2, None, NOTHING_NEEDED)[1].size == 5
    assert stored(store) == [0, 1, 2, 3, 4]
    (tmp_path / "d.npz.part").rename(tmp_path / "d.npz")
    assert store.receive(3, None, NOTHING_NEEDED)[1].size == 5
    assert store.receive(4, None, NOTHING_NEEDED)[1].size == 0
    assert {"a.npz", "b.npz", "d.npz"} < {file.name for file in tmp_path.iterdir()}


def test_names_of_files_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    folder = FolderSource(tmp_path)
    store = SampleStore(FORMAT, Storage("fifo", 10), folder)
    put(tmp_path, "a.npz", 1)
    put(tmp_path, "b.npz", 1)
    store.receive(1, None, NOTHING_NEEDED)
    assert list(folder.taken) == ["a.npz", "b.npz"]
    (tmp_path / "a.npz").unlink()
    store.receive(2, None, NOTHING_NEEDED)
    assert list(folder.taken) == ["b.npz"]
    put(tmp_path, "a.npz", 1)  # a new file of an old name
    assert store.receive(3, None, NOTHING_NEEDED)[1].size == 1
    assert store.seen == 3


def test_of_several_files_only_what_stays_is_new(tmp_path: Path) -> None:
    """Ten samples in two files into two places: those of the first have left again."""
    store = SampleStore(FORMAT, Storage("fifo", 2), FolderSource(tmp_path))
    put(tmp_path, "a.npz", 5)
    put(tmp_path, "b.npz", 5, first=5)
    buffer, fresh = store.receive(1, None, NOTHING_NEEDED)
    assert sorted(fresh.tolist()) == sorted(buffer.rows.tolist())
    assert sorted(stored(store)) == [8, 9]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a missing array": ({"targets": None}, "needs the arrays inputs and targets"),
    "a wrong shape": (
        {"inputs": np.zeros((4, 3), np.float32)},
        r"inputs have shape \(4, 3\), but the model learns from \(4, 2\)",
    ),
    "too few targets": ({"targets": np.zeros(3, np.int64)}, r"targets have shape \(3,\)"),
    "a wrong type": ({"inputs": np.zeros((4, 2))}, "inputs are torch.float64"),
    "targets of a wrong type": ({"targets": np.zeros(4)}, "targets are torch.float64"),
    "words": ({"targets": np.array(list("abcd"))}, "which are no numbers"),
    "a single number": ({"targets": np.array(1)}, "a single number"),
    "an unknown class": (
        {"targets": np.array([0, 1, 3, 2])},
        "a label is 3, but the model's are 0 to 2",
    ),
    "a negative class": ({"targets": np.array([0, 1, -1, 2])}, "a label is -1"),
    "no finite numbers": ({"inputs": np.full((4, 2), np.nan, np.float32)}, "not all finite"),
    "objects": ({"targets": np.array([None] * 4)}, "cannot be read"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_learned_is_named_and_changes_nothing(what: str, tmp_path: Path) -> None:
    arrays, complaint = WRONG[what]
    store = SampleStore(FORMAT, Storage("fifo", 10), FolderSource(tmp_path))
    put(tmp_path, "a.npz", 2)
    put(tmp_path, "b.npz", 4, **arrays)
    for _ in range(2):  # and again, until somebody takes the file away
        with pytest.raises(ValueError, match=complaint) as error:
            store.receive(1, None, NOTHING_NEEDED)
        assert str(tmp_path / "b.npz") in str(error.value)
        assert stored(store) == [0, 1]
    (tmp_path / "b.npz").unlink()
    put(tmp_path, "c.npz", 1, first=2)
    store.receive(2, None, NOTHING_NEEDED)
    assert stored(store) == [0, 1, 2]


@pytest.mark.parametrize("content", [b"", b"PK no zip", b"\x93NUMPY"])
def test_a_damaged_file_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    store = SampleStore(FORMAT, Storage("fifo", 10), FolderSource(tmp_path))
    with pytest.raises(ValueError, match=r"a\.npz cannot be read"):
        store.receive(1, None, NOTHING_NEEDED)


def test_stores_need_a_size_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="use a buffer that has a size"):
        SampleStore(FORMAT, Storage("unbounded"), ListSource(1))
    with pytest.raises(InvalidInput, match="is not a folder"):
        FolderSource(tmp_path / "nowhere")


def test_the_format_of_samples_comes_from_the_model() -> None:
    softmax, svm = (sample_format(FlatModel(digits(name), seed=0)) for name in ("softmax", "svm"))
    assert softmax == SampleFormat((1, 8, 8), (), torch.float32, torch.int64, classes=10)
    assert svm.classes is None  # it has one output, and takes labels by their parity


# A device end to end: what arrives, rounds, restarts.


def order(round_index: int, weights: torch.Tensor, local_steps: int) -> Order:
    return Order(0, round_index, weights, local_steps, 16, 0.1, probe=True, remember=True)


def arrive(folder: Path, k: int) -> None:
    task = digits()
    some = slice(40 * k, 40 * (k + 1))
    np.savez(
        folder / f"{k:03}.npz",
        inputs=task.train_inputs[some].numpy(),
        targets=task.train_targets[some].numpy(),
    )


def device(folder: Path, state: StoreState | None = None) -> tuple[Client, SampleStore]:
    client = incoming_client(digits(), folder, storage=Storage("reservoir", 60))
    assert isinstance(client.incoming, SampleStore)
    if state is not None:
        client.incoming.restore(state)
    return client, client.incoming


def test_a_device_learns_from_its_folder_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "arrivals"
    folder.mkdir()
    arrive(folder, 0)
    client, store = device(folder)
    state = ClientState()
    weights = client.model.first_weights
    losses = []
    for k in range(1, 7):  # alone in its fleet, so its model is the next global one
        reply = client.run_round(order(k, weights, 1 + k % 3), state)
        weights, state = reply.weights, reply.state
        assert reply.samples == 40 * k
        assert state.buffer is not None
        assert state.buffer.rows.size == min(40 * k, 60)
        if reply.figures is not None:
            losses.append(reply.figures.loss)
        arrive(folder, k)
    assert len(losses) == 5
    assert losses[-1] < losses[0]

    save_record(tmp_path / "store", store.state)
    save_record(tmp_path / "state", state)
    restarted, restored = device(folder, load_record(tmp_path / "store", StoreState))
    assert restored.seen == store.seen
    again = restarted.run_round(order(7, weights, 4), load_record(tmp_path / "state", ClientState))
    alone = client.run_round(order(7, weights, 4), state)
    assert torch.equal(again.weights, alone.weights)
    assert again.figures == alone.figures
    assert again.samples == alone.samples == 280
    assert torch.equal(restored.inputs, store.inputs)
    assert restored.state.taken == store.state.taken


def test_a_state_of_another_model_or_size_is_refused(tmp_path: Path) -> None:
    arrive(tmp_path, 0)
    arrive(tmp_path, 1)
    client, store = device(tmp_path)
    client.run_round(order(1, client.model.first_weights, 1), ClientState())
    state = store.state
    assert len(state.inputs) == 60  # the rows that were used, of 120
    other = replace(sample_format(client.model), input_shape=(65,))
    with pytest.raises(InvalidInput, match="was it another model"):
        SampleStore(other, Storage("reservoir", 60), FolderSource(tmp_path)).restore(state)
    for size in (30, 70):
        small = SampleStore(
            sample_format(client.model), Storage("fifo", size), FolderSource(tmp_path)
        )
        with pytest.raises(InvalidInput, match="was it another size"):
            small.restore(state)


def test_a_round_asked_for_again_takes_in_nothing_more(tmp_path: Path) -> None:
    """Its reply is the same, although more has arrived and the device was restarted."""
    arrive(tmp_path, 0)
    client, store = device(tmp_path)
    weights = client.model.first_weights
    state = client.run_round(order(1, weights, 2), ClientState()).state
    arrive(tmp_path, 1)
    reply = client.run_round(order(2, weights, 2), state)  # and its state is lost
    arrive(tmp_path, 2)
    for other in (client, device(tmp_path, store.state)[0]):
        again = other.run_round(order(2, weights, 2), state)
        assert torch.equal(again.weights, reply.weights)
        assert again.figures == reply.figures
        assert again.samples == reply.samples == 80
    assert client.run_round(order(3, weights, 2), reply.state).samples == 120


def test_another_training_takes_in_samples_in_a_round_of_the_same_number(tmp_path: Path) -> None:
    arrive(tmp_path, 0)
    client, store = device(tmp_path)
    weights = client.model.first_weights
    assert client.run_round(order(1, weights, 2), ClientState()).samples == 40
    arrive(tmp_path, 1)
    store.begin_training()
    assert client.run_round(order(1, weights, 2), ClientState()).samples == 80
