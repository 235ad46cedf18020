"""The guide in ``docs/deploy.md``: its job and its task run as they are printed."""

from pathlib import Path

import numpy as np
import pytest

from dynamite_fl.client.client import Client
from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.job_parts import build_client
from dynamite_fl.job.build_data import build_task, number_of_devices
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.reports import RoundReport
from tests.documents import DOCS, blocks
from tests.flower.fleet import order
from tests.flower.local_grid import LocalGrid

GUIDE = DOCS / "deploy.md"


def written(name: str) -> str:
    """Return the block that the guide writes into a file."""
    (text,) = (block.text for block in blocks(GUIDE) if block.words == name)
    return text


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingJob:
    """Return the job of the guide; its task is found beside it."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "job.toml").write_text(written("job.toml"))
    (folder / "my_task.py").write_text(written("my_task.py"))
    inputs, labels = samples()
    np.savez(tmp_path / "data.npz", x=inputs, y=labels)
    monkeypatch.chdir(tmp_path)
    return load_training_job(folder / "job.toml")


def samples() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.standard_normal((60, 64)).astype(np.float32), random.integers(0, 10, 60)


def play_round(job: TrainingJob, client: Client, state: Path) -> RoundReport:
    """Play a round with as many nodes as the job has, all with the same client."""
    nodes = range(number_of_devices(job))
    grid = LocalGrid(
        {node: client_app(lambda _: client, state / str(node)) for node in nodes},
        {node: {"name": f"node {node}"} for node in nodes},
    )
    engine = FlowerEngine(grid, build_task(job), len(nodes))
    engine.enroll()
    weights = engine.first_weights()
    return engine.run_round(order(1, weights, clients=len(nodes), path=True)).report


def test_the_job_of_the_guide(job: TrainingJob, tmp_path: Path) -> None:
    client = build_client(job, None)
    assert client.indices.size == 60
    assert play_round(job, client, tmp_path).present.tolist() == [True, True]


def test_samples_that_keep_arriving(job: TrainingJob, tmp_path: Path) -> None:
    """A file counts once it has its whole name."""
    folder = tmp_path / "samples"
    folder.mkdir()
    client = build_client(job, None, incoming=folder)
    inputs, targets = samples()
    for name in ("a.npz", "b.npz"):
        np.savez(folder / name, inputs=inputs, targets=targets)
    (folder / "b.npz").rename(folder / "b.npz.part")
    assert play_round(job, client, tmp_path).samples.tolist() == [60, 60]


@pytest.mark.usefixtures("job")
def test_each_machine_names_its_own_data(tmp_path: Path) -> None:
    """A node has no test data, and the hub no training data."""
    (tmp_path / "data.npz").rename(tmp_path / "ward.npz")
    file = tmp_path / "job" / "job.toml"
    node = load_training_job(file, ["task.train=ward.npz", 'task.test=""'])
    hub = load_training_job(file, ['task.train=""', "task.test=ward.npz"])
    client = build_client(node, None)
    assert not client.model.task.has_test_data
    assert not build_task(hub).has_train_data
    assert play_round(hub, client, tmp_path).present.tolist() == [True, True]
