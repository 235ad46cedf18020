"""Training inside a Flower app, on a Grid without a network."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dynamite_fl.flower
from dynamite_fl import Limits, Privacy, evaluate
from dynamite_fl.client.gaussian_noise import KeyedNoise, SecretNoise
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.client.private_update import NodePrivacy
from dynamite_fl.errors import InvalidInput, TooFewNodes
from dynamite_fl.flower import Timeouts, client_app, local_client, train
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.job.runs import load_run
from dynamite_fl.job.training import DEFAULT_CONTROLLER
from dynamite_fl.partitions import fixed
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.task.task import Task
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.history import read_history
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.server_optimizer import FedAvgM
from tests.flower.fleet import CLIENTS, grid, order
from tests.flower.local_grid import App, LocalGrid
from tests.models import ALL as MODELS
from tests.models import batch_norm_net, task_of
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
        inputs, labels = task.test.batch(np.arange(len(task.test)))
        is_correct = result.model(inputs).argmax(1) == labels
    assert is_correct.float().mean().item() == pytest.approx(result.history.final)
    for name, weights in result.model.state_dict().items():
        assert torch.equal(weights, result.state_dict[name])


def test_nobody_is_left_out_if_the_rate_is_chosen(tmp_path: Path) -> None:
    """Nodes search for a rate and check it, which is no part of their local steps."""
    limits = replace(LIMITS, rounds=8, max_local_steps=30)
    task = digits("perceptron")
    result = train(grid(tmp_path), task, limits, clients=CLIENTS, folder=tmp_path / "run")
    assert all(record.absent == () for record in result.history)
    assert len({record.learning_rate for record in result.history}) > 1
    assert result.history.final > 0.5
    assert not (tmp_path / "run" / "excluded.txt").exists()


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


def test_a_server_optimiser_and_a_falling_rate(tmp_path: Path) -> None:
    plain = trained(grid(tmp_path / "a"), controller="fedavg")
    settings: dict[str, Any] = {"server": "fedavgm", "schedule": "linear", "warmup": 0.1}
    other = trained(grid(tmp_path / "b"), controller="fedavg", folder=tmp_path / "c", **settings)
    assert other.history[-1].learning_rate is not None
    assert other.history[-1].learning_rate < RATE
    assert other.history[-1].loss != plain.history[-1].loss
    assert load_run(RunFolder(tmp_path / "c")).server == FedAvgM()


def own_grid(
    task: Task, folder: Path, optimizer: Optimizer, parts: int = 3, **settings: Any
) -> LocalGrid:
    """Return a Grid of nodes that each have a part of a task's samples."""
    rows = np.array_split(np.arange(len(task.train)), parts)

    def made(part: int) -> App:
        own = replace(task, train_data=task.train.batch(rows[part]), test_data=None, metrics=[])
        app: App = client_app(
            lambda _: local_client(own, optimizer=optimizer, **settings), folder / str(part)
        )
        return app

    nodes = range(parts)
    return LocalGrid({n: made(n) for n in nodes}, {n: {"name": f"node {n}"} for n in nodes})


@pytest.mark.parametrize("name", ["dropout", "gru", "batch norm"])
@pytest.mark.parametrize("controller", [DEFAULT_CONTROLLER, "dynamite"])
def test_every_model_is_trained_on_nodes(name: str, controller: str, tmp_path: Path) -> None:
    optimizer = Optimizer("SGD", momentum=0.5, keep_state=True)
    task = task_of(MODELS[name])
    result = train(
        own_grid(task, tmp_path, optimizer),
        replace(task, train_data=None),
        LIMITS,
        controller,
        clients=3,
        learning_rate=RATE,
        folder=tmp_path / "run",
    )
    assert len(result.history) == 4
    assert all(record.absent == () for record in result.history)
    assert all(record.refused == 0 for record in result.history)
    assert result.history[-1].probed == (controller == "dynamite")
    assert result.metrics["loss"] == pytest.approx(evaluate(task, result.model)["loss"])


@pytest.mark.parametrize("name", ["dropout", "gru", "batch norm"])
def test_a_round_of_nodes_is_one_of_simulated_devices(name: str, tmp_path: Path) -> None:
    optimizer = Optimizer("SGD", momentum=0.5, keep_state=True)
    task = task_of(MODELS[name])
    nodes = own_grid(task, tmp_path, optimizer)
    engine = FlowerEngine(nodes, replace(task, train_data=None), 3, timeouts=QUICK)
    fleet = engine.enroll()
    assert fleet.samples.tolist() == [30.0, 30.0, 30.0]
    assert (fleet.samples_per_second > 0).all()
    lists = [rows.tolist() for rows in np.array_split(np.arange(90), 3)]
    partition = fixed(lists).split(np.zeros(90), 3)
    devices = Devices(samples_per_second=[100.0] * 3)
    simulated = SimulatedEngine(task, partition, devices, optimizer=optimizer)
    weights = engine.first_weights()
    for index in (1, 2, 3):
        asked = order(index, weights, clients=3, path=True)
        ours, theirs = engine.run_round(asked), simulated.run_round(asked)
        for our, their in zip(ours.updates, theirs.updates, strict=True):
            assert torch.equal(our, their)
        for our_path, their_path in zip(ours.paths, theirs.paths, strict=True):
            assert our_path.gradient_sum is not None
            assert their_path.gradient_sum is not None
            assert torch.equal(our_path.gradient_sum, their_path.gradient_sum)
        assert ours.report.probe is not None
        assert theirs.report.probe is not None
        np.testing.assert_array_equal(ours.report.probe.smoothness, theirs.report.probe.smoothness)
        weights = average(ours.updates, ours.report.samples)


def test_a_node_with_one_sample_trains_batch_normalisation(tmp_path: Path) -> None:
    task = task_of(batch_norm_net, samples=3)
    nodes = own_grid(task, tmp_path, Optimizer())
    result = train(nodes, task, LIMITS, clients=3, learning_rate=RATE)
    assert all(record.absent == () for record in result.history)


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


PRIVATE = replace(LIMITS, epsilon=20.0, delta=0.1)


def test_a_private_training_ends_by_epsilon(tmp_path: Path) -> None:
    limits = replace(PRIVATE, rounds=None, epsilon=6.0)
    privacy = Privacy(clip_norm=1.0, noise_multiplier=2.0)
    result = trained(
        grid(tmp_path), limits=limits, cohort=3, privacy=privacy, folder=tmp_path / "run"
    )
    assert result.stopped_by == "epsilon"
    spent = [record.epsilon or 0.0 for record in result.history]
    assert spent == sorted(spent)
    assert 5.0 < spent[-1] <= 6.0
    counted, _ = RunFolder(tmp_path / "run").releases.read_text().split()
    assert int(counted) == len(result.history)
    # Noise is secret: another training with the same seed has other weights.
    other = trained(grid(tmp_path / "b"), limits=limits, cohort=3, privacy=privacy)
    first, second = (next(iter(r.state_dict.values())) for r in (result, other))
    assert not torch.isclose(first, second).any()


def test_nodes_clip_and_add_their_share_of_the_noise(tmp_path: Path) -> None:
    privacy = Privacy(clip_norm=1e-9, noise_multiplier=3e8, noise_at="node")
    nodes = own_grid(digits(), tmp_path, Optimizer(), privacy=privacy, expected_clients=3)
    task = replace(digits(), train_data=None)
    engine = FlowerEngine(nodes, task, 3, timeouts=QUICK)
    engine.enroll()
    weights = engine.first_weights()
    outcome = engine.run_round(order(1, weights, clients=3, probe=False))
    assert len(outcome.updates) == 3
    for update in outcome.updates:  # 650 numbers of the deviation 0.3 / sqrt(3)
        share = 0.3 / 3**0.5
        assert float((update - weights).std()) == pytest.approx(share, rel=5 / (2 * 650) ** 0.5)
    # Nodes refuse to measure anything beside, whatever the server asks for.
    for asked in ({"probe": True}, {"probe": False, "path": True}):
        assert not engine.run_round(order(2, weights, clients=3, **asked)).updates
    limits = replace(PRIVATE, delta=0.2)
    result = train(nodes, task, limits, "fedavg", clients=3, learning_rate=RATE, privacy=privacy)
    assert len(result.history) == 4


def test_private_nodes_send_what_simulated_ones_do(tmp_path: Path) -> None:
    task, protection = digits(), NodePrivacy(0.5, 0.01, KeyedNoise(seed=0))
    rows = np.array_split(np.arange(len(task.train)), 3)

    def made(part: int) -> App:
        own = replace(local_client(task), indices=rows[part], privacy=protection)
        app: App = client_app(lambda _: own, tmp_path / str(part))
        return app

    nodes = LocalGrid({n: made(n) for n in range(3)}, {n: {"name": f"{n}"} for n in range(3)})
    engine = FlowerEngine(nodes, replace(task, train_data=None), 3, timeouts=QUICK)
    engine.enroll()
    partition = fixed([part.tolist() for part in rows]).split(np.zeros(len(task.train)), 3, seed=0)
    devices = Devices(samples_per_second=[100.0, 100.0, 100.0])
    simulated = SimulatedEngine(task, partition, devices, privacy=protection)
    asked = order(1, engine.first_weights(), clients=3, probe=False)
    ours, theirs = simulated.run_round(asked).updates, engine.run_round(asked).updates
    for left, right in zip(ours, theirs, strict=True):  # one is computed for all clients at once
        assert torch.allclose(left, right, atol=1e-6)


def test_the_privacy_of_a_node_needs_to_know_its_share() -> None:
    privacy = Privacy(clip_norm=1.0, noise_multiplier=1.0, noise_at="node")
    with pytest.raises(InvalidInput, match="expected_clients"):
        local_client(digits(), privacy=privacy)
    with pytest.raises(InvalidInput, match="noise_multiplier"):
        local_client(digits(), privacy=replace(privacy, noise_multiplier=None), expected_clients=4)
    made = local_client(digits(), privacy=privacy, expected_clients=4)
    assert made.privacy == NodePrivacy(1.0, 0.5, SecretNoise())
    assert local_client(digits(), privacy=replace(privacy, noise_at="server")).privacy is None
