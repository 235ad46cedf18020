"""Training inside a Flower app, on a Grid without a network."""

from pathlib import Path
from typing import Any

import pytest
import torch

import dynamite_fl.flower
from dynamite_fl import Limits
from dynamite_fl.errors import InvalidInput, TooFewNodes
from dynamite_fl.flower import Timeouts, local_client, train
from dynamite_fl.training.history import read_history
from dynamite_fl.training.round_record import RoundRecord
from tests.flower.fleet import CLIENTS, grid
from tests.flower.local_grid import LocalGrid
from tests.trainings import RATE, digits

LIMITS = Limits(
    rounds=4,
    deadline=1000.0,
    budget=1000.0,
    cost_per_sample=0.001,
    cost_per_round=1.0,
    max_local_steps=5,
)
QUICK = Timeouts(join_seconds=0.05)


def trained(nodes: LocalGrid, **settings: Any) -> dynamite_fl.flower.Result:
    return train(
        nodes,
        digits("perceptron"),
        settings.pop("limits", LIMITS),
        clients=CLIENTS,
        learning_rate=RATE,
        **settings,
    )


def test_the_result_has_the_trained_model(tmp_path: Path) -> None:
    records: list[RoundRecord] = []
    result = trained(grid(tmp_path), on_round=records.append)
    assert [record.round for record in records] == [1, 2, 3, 4]
    assert list(result.history) == records
    assert result.stopped_by == "rounds"
    assert result.folder is None
    assert not result.model.training
    task = digits("perceptron")
    with torch.no_grad():
        is_correct = task.correct(result.model(task.test_inputs), task.test_targets)
    assert is_correct.float().mean().item() == pytest.approx(result.history.final_accuracy)
    for name, weights in result.model.state_dict().items():
        assert torch.equal(weights, result.state_dict[name])


def test_a_folder_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    nodes = grid(tmp_path)

    def stop(record: RoundRecord) -> None:
        if record.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(nodes, folder=folder, on_round=stop)
    result = trained(nodes, folder=folder)
    assert result.folder == folder
    assert len(result.history) == 4
    again = trained(nodes, folder=folder)  # it has ended
    assert again.history == read_history(folder / "history.jsonl")
    assert again.stopped_by == "rounds"
    for name, weights in result.state_dict.items():
        assert torch.equal(weights, again.state_dict[name])


def test_sketches_in_place_of_gradients(tmp_path: Path) -> None:
    result = trained(grid(tmp_path), controller="dynamite", probe_gradient="sketch")
    assert result.history[-1].probed
    assert local_client(digits(), probe_gradient="sketch").settings.only_sketches
    with pytest.raises(InvalidInput, match="there is no probe_gradient 'half'"):
        local_client(digits(), probe_gradient="half")  # type: ignore[arg-type]


def test_too_few_nodes(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    del nodes.apps[5]
    with pytest.raises(TooFewNodes, match=r"4 connected .*, 1 missing"):
        trained(nodes, min_nodes=5, timeouts=QUICK)


def test_public_names() -> None:
    for name in dynamite_fl.flower.__all__:
        assert getattr(dynamite_fl.flower, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'Patience'"):
        dynamite_fl.flower.Patience  # noqa: B018
