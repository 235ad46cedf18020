"""A device's own samples, in bounded memory."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.client.local_data.sample_format import sample_format
from dynamite_fl.client.local_data.sources import FolderSource
from dynamite_fl.client.local_data.store import SampleStore
from dynamite_fl.client.messages import ClientState
from dynamite_fl.errors import InvalidInput
from dynamite_fl.stream.buffer import NOTHING, Policy, Storage
from tests.client.local_data.samples import (
    FORMAT,
    NOTHING_NEEDED,
    ListSource,
    arrive,
    device,
    order,
    put,
    stored,
)


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


def test_of_several_files_only_what_stays_is_new(tmp_path: Path) -> None:
    """Ten samples in two files into two places: those of the first have left again."""
    store = SampleStore(FORMAT, Storage("fifo", 2), FolderSource(tmp_path))
    put(tmp_path, "a.npz", 5)
    put(tmp_path, "b.npz", 5, first=5)
    buffer, fresh = store.receive(1, None, NOTHING_NEEDED)
    assert sorted(fresh.tolist()) == sorted(buffer.rows.tolist())
    assert sorted(stored(store)) == [8, 9]


def test_a_buffer_needs_a_size() -> None:
    with pytest.raises(InvalidInput, match="use a buffer that has a size"):
        SampleStore(FORMAT, Storage("unbounded"), ListSource(1))


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
