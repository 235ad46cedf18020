"""The guide in ``docs/deploy.md``: its job and its task run as they are printed."""

import re
from pathlib import Path

import numpy as np
import pytest

from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.job_parts import build_client
from dynamite_fl.job.build import build_task, number_of_devices
from dynamite_fl.job.training import load_training_job
from tests.flower.fleet import order
from tests.flower.local_grid import LocalGrid

GUIDE = Path(__file__).parents[1] / "docs" / "deploy.md"


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return str(text)


def test_the_job_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.toml").write_text(block("toml"))
    (tmp_path / "my_task.py").write_text(block("python"))
    random = np.random.default_rng(0)
    inputs, labels = random.standard_normal((60, 64)), random.integers(0, 10, 60)
    np.savez(tmp_path / "data.npz", x=inputs, y=labels)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    job = load_training_job(tmp_path / "job.toml")
    nodes = range(number_of_devices(job))
    client = build_client(job, None, None)
    assert client.indices.size == 60
    grid = LocalGrid(
        {node: client_app(lambda _: client, tmp_path / str(node)) for node in nodes},
        {node: {"name": f"node {node}"} for node in nodes},
    )
    task = build_task(job)
    engine = FlowerEngine(grid, task, len(nodes), learning_rate=0.05)
    engine.enroll()
    outcome = engine.run_round(order(1, engine.first_weights(), clients=len(nodes), path=True))
    assert outcome.report.present.all()
