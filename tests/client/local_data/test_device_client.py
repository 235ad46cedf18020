"""A device that learns from files that arrive in a folder."""

from pathlib import Path

import torch

from dynamite_fl.client.local_data.store import StoreState
from dynamite_fl.client.messages import ClientState
from dynamite_fl.training.codec import load_record, save_record
from tests.client.local_data.samples import arrive, device, order


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
