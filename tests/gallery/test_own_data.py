"""Each machine has its own data: nodes have no test data, a server has no training data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynamite_fl as fl
from dynamite_fl.flower.job_parts import build_client
from dynamite_fl.job.build_data import build_task
from dynamite_fl.job.runs import load_job_file
from dynamite_fl.training.run_folder import RunFolder
from tests._cli.commands import invoke
from tests.gallery.checks import assert_same_weights
from tests.gallery.nodes import NODES, train_on_nodes

_MODULE = """
from pathlib import Path
import numpy as np
from torch import nn
import dynamite_fl as fl

def read(file):
    return tuple(np.load(file).values()) if file.exists() else None

def make_task(folder):
    return fl.Task(
        model=lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 2)),
        loss=nn.CrossEntropyLoss(),
        train_data=read(Path(folder) / "train.npz"),
        test_data=read(Path(folder) / "test.npz"),
    )
"""
_LIMITS: dict[str, Any] = {
    "deadline": 1e6,
    "budget": 1e6,
    "cost_per_sample": 0,
    "cost_per_round": 1,
    "rounds": 3,
}
_TABLES: dict[str, Any] = {
    "task": {"use": "own_data:make_task"},
    "controller": {"name": "fedavg", "local_steps": 3, "batch_size": 8},
    "devices": {"clients": NODES},
    "limits": _LIMITS,
    "training": {"learning_rate": 0.1},
}
SAMPLES = {"node-1": 30, "node-2": 50, "server": 20}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a module, and a folder with data for each machine."""
    (tmp_path / "own_data.py").write_text(_MODULE)
    random = np.random.default_rng(0)
    for machine, samples in SAMPLES.items():
        inputs = random.standard_normal((samples, 4)).astype(np.float32)
        labels = (inputs.sum(axis=1) > 0).astype(np.int64)
        (tmp_path / machine).mkdir()
        name = "test.npz" if machine == "server" else "train.npz"
        np.savez(tmp_path / machine / name, inputs, labels)
    return tmp_path


def overrides(project: Path) -> list[list[str]]:
    """Return what ``--set`` says on each node."""
    return [[f"task.folder={project / name}"] for name in ("node-1", "node-2")]


def test_nodes_and_server_have_their_own_data(project: Path) -> None:
    """A simulation with a list of the same data computes the same, to the bit."""
    tables = {**_TABLES, "task": {**_TABLES["task"], "folder": str(project / "server")}}
    weights = train_on_nodes(tables, RunFolder(project / "run"), [project], overrides(project))
    machines = {
        name: fl.load_task("own_data:make_task", [project], {"folder": str(project / name)})
        for name in SAMPLES
    }
    task = fl.Task(
        model=machines["server"].model,
        loss=machines["server"].loss,
        train_data=[machines[name].train_data for name in ("node-1", "node-2")],
        test_data=machines["server"].test_data,
    )
    simulated = fl.train(
        task,
        devices=fl.Devices(samples_per_second=[100, 200]),
        controller=fl.controllers.FedAvg(local_steps=3, batch_size=8),
        limits=fl.Limits(**_LIMITS),
        learning_rate=0.1,
    )
    assert_same_weights(weights, simulated.state_dict)


def test_what_a_machine_lacks_is_said_where_it_is_needed(project: Path) -> None:
    job_file = project / "job.toml"
    job_file.write_text(
        'task = "own_data:make_task"\ndevices = { clients = 2 }\n'
        "[training]\nlearning_rate = 0.1\n"
        "[limits]\ndeadline = 9\nbudget = 9\ncost_per_sample = 0\ncost_per_round = 1\n"
    )
    here, server = (f"task.folder={project / name}" for name in ("node-1", "server"))
    assert build_client(load_job_file(job_file, [here]), None).indices.size == SAMPLES["node-1"]
    assert not build_task(load_job_file(job_file, [server])).has_train_data
    for command, data, lacking in (("serve", here, "test data"), ("node", server, "training data")):
        result = invoke(command, job_file, "--name", "a", "--set", data)
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert f"the task has no {lacking}" in line
