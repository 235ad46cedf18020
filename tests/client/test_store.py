"""A device's own samples: from an iterator or a folder, in bounded memory."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dynamite_fl.client.client import Client, ClientState, Order
from dynamite_fl.client.flat import FlatModel
from dynamite_fl.client.sources import Folder, Samples
from dynamite_fl.client.store import Kind, Store, StoreState, kind_of
from dynamite_fl.engine.pack import load_record, save_record
from dynamite_fl.stream.buffer import NOTHING, Policy, Storage
from tests.engine.trainings import digits

KIND = Kind((2,), (), torch.float32, torch.int64, classes=3)
NOTHING_NEEDED = NOTHING.rows


def numbered(count: int) -> Iterator[tuple[NDArray[Any], int]]:
    """Sample n has inputs (n, -n) and the label n mod 3."""
    for n in range(count):
        yield np.array([n, -n], dtype=np.float32), n % 3


def stored(store: Store) -> list[int]:
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
    store = Store(KIND, storage, Samples(numbered(10**6), each_round), client=5)
    expected, batch = NOTHING, NOTHING_NEEDED
    random = np.random.default_rng(seed)
    for k in range(1, rounds + 1):
        kept = store.inputs[batch].clone()
        arrivals = np.arange(expected.seen, expected.seen + each_round)
        expected, places = storage.take(5, expected, arrivals)
        buffer, fresh = store.receive(k, None, batch)
        assert stored(store) == expected.rows.tolist()
        assert sorted(store.inputs[fresh, 0].tolist()) == sorted(expected.rows[places].tolist())
        assert buffer.seen == store.seen == expected.seen
        assert torch.equal(store.inputs[batch], kept)
        if random.random() < 0.7:  # at one local step a batch can be needed for long
            batch = random.choice(buffer.rows, random.integers(1, buffer.rows.size + 1))
    assert len(store.inputs) == 2 * size


def test_an_iterator_that_ends_just_brings_no_more() -> None:
    store = Store(KIND, Storage("fifo", 10), Samples(numbered(5), each_round=3))
    sizes = [store.receive(k, None, NOTHING_NEEDED)[1].size for k in (1, 2, 3)]
    assert sizes == [3, 2, 0]
    assert stored(store) == [0, 1, 2, 3, 4]


def test_files_are_taken_once_in_the_order_of_their_names_and_stay(tmp_path: Path) -> None:
    store = Store(KIND, Storage("fifo", 10), Folder(tmp_path))
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
    folder = Folder(tmp_path)
    store = Store(KIND, Storage("fifo", 10), folder)
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
    store = Store(KIND, Storage("fifo", 2), Folder(tmp_path))
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
    store = Store(KIND, Storage("fifo", 10), Folder(tmp_path))
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
    store = Store(KIND, Storage("fifo", 10), Folder(tmp_path))
    with pytest.raises(ValueError, match=r"a\.npz cannot be read"):
        store.receive(1, None, NOTHING_NEEDED)


def test_a_wrong_sample_of_an_iterator_is_named_by_its_number() -> None:
    samples = [*numbered(2), (np.zeros(2, np.float32), 7)]
    store = Store(KIND, Storage("fifo", 10), Samples(samples, each_round=9))
    with pytest.raises(ValueError, match="sample 3: a label is 7"):
        store.receive(1, None, NOTHING_NEEDED)


def test_stores_need_a_size_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a size"):
        Store(KIND, Storage("unbounded"), Samples([], 1))
    with pytest.raises(ValueError, match="is no folder"):
        Folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="each_round is 0"):
        Samples([], 0)


def test_the_kind_of_samples_comes_from_the_model() -> None:
    softmax, svm = (kind_of(FlatModel(digits(name), seed=0)) for name in ("softmax", "svm"))
    assert softmax == Kind((1, 8, 8), (), torch.float32, torch.int64, classes=10)
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


def device(store: Store) -> Client:
    model = FlatModel(digits(), seed=0)
    return Client(model, store.inputs, store.targets, NOTHING.rows, seed=0, receive=store.receive)


def new_store(folder: Path, state: StoreState | None = None) -> Store:
    kind = kind_of(FlatModel(digits(), seed=0))
    return Store(kind, Storage("reservoir", 60), Folder(folder), state=state)


def test_a_device_learns_from_its_folder_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "arrivals"
    folder.mkdir()
    arrive(folder, 0)
    store = new_store(folder)
    client, state = device(store), ClientState()
    weights = client.model.first_weights
    losses = []
    for k in range(1, 7):  # alone in its fleet, so its model is the next global one
        reply = client.play(order(k, weights, 1 + k % 3), state)
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
    restored = new_store(folder, load_record(tmp_path / "store", StoreState))
    assert restored.seen == store.seen
    again = device(restored).play(
        order(7, weights, 4), load_record(tmp_path / "state", ClientState)
    )
    alone = client.play(order(7, weights, 4), state)
    assert torch.equal(again.weights, alone.weights)
    assert again.figures == alone.figures
    assert again.samples == alone.samples == 280
    assert torch.equal(restored.inputs, store.inputs)
    assert restored.state.taken == store.state.taken


def test_a_state_of_another_model_or_size_is_refused(tmp_path: Path) -> None:
    state = new_store(tmp_path).state
    kind = replace(kind_of(FlatModel(digits(), seed=0)), inputs=(65,))
    with pytest.raises(ValueError, match="another model or buffer size"):
        Store(kind, Storage("reservoir", 60), Folder(tmp_path), state=state)


def test_a_round_that_failed_half_way_loses_no_sample(tmp_path: Path) -> None:
    """The client comes again with the state it had; what the store took in is there."""
    arrive(tmp_path, 0)
    store = new_store(tmp_path)
    client = device(store)
    weights = client.model.first_weights
    state = client.play(order(1, weights, 2), ClientState()).state
    arrive(tmp_path, 1)
    client.play(order(2, weights, 2), state)  # and its state is lost
    reply = client.play(order(2, weights, 2), state)
    assert reply.samples == 80
    assert state.memory is not None
    assert reply.figures is not None
