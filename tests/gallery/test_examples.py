"""Every example of ``examples/``, quickly: in simulation, with workers, resumed, and on nodes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryF1Score

import dynamite_fl as fl
from dynamite_fl.controllers import FedAvg
from dynamite_fl.task.task import Task
from dynamite_fl.training.run_folder import RunFolder
from tests.gallery.checks import assert_same_weights, check_workers_and_resumes
from tests.gallery.nodes import NODES, train_on_nodes
from tests.gallery.quick import EXAMPLES, FOLDER, LIMITS, ROUNDS, Example, write_small_cifar

CLIENTS = 3

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


@pytest.fixture(scope="module", autouse=True)
def small_cifar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put a small CIFAR-10 where the example finds it."""
    folder = tmp_path_factory.mktemp("cifar")
    write_small_cifar(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DYNAMITE_DATA", str(folder))
        yield


def test_examples_are_short_and_all_are_tested() -> None:
    files = sorted(FOLDER.glob("*.py"))
    assert [file.stem for file in files] == sorted(example.name for example in EXAMPLES)
    for file in files:
        assert len(file.read_text().splitlines()) < 60, file
    table = (FOLDER / "README.md").read_text()
    assert all(file.name in table for file in files)


@every_example
def test_workers_and_interruptions_change_no_bit(example: Example, tmp_path: Path) -> None:
    task = example.task(CLIENTS, tmp_path)
    train = partial(example.train, task, CLIENTS)
    check_workers_and_resumes(train, task, tmp_path, ROUNDS)


@every_example
def test_the_saved_model_has_the_reported_metrics(example: Example, tmp_path: Path) -> None:
    task = example.task(CLIENTS, tmp_path)
    result = example.train(task, CLIENTS, folder=tmp_path / "run")
    model = task.new_model(seed=1)
    model.load_state_dict(load_file(tmp_path / "run" / "model.safetensors"))
    model.eval()
    name, value = plain_metric(task, model)
    measured = fl.evaluate(task, model)
    assert measured[name] == value
    assert result.metrics == measured


def plain_metric(task: Task, model: nn.Module) -> tuple[str, float]:
    """Return the name and the value of the leading metric, computed by plain code of torch."""
    with torch.no_grad():
        pairs = [(model(*inputs), targets) for *inputs, targets in loaded_batches(task)]
    outputs, targets = (torch.cat(column) for column in zip(*pairs, strict=True))
    name = next(iter(task.all_metrics))
    if name == "f1":
        return name, float(BinaryF1Score()(outputs, targets))
    if name == "rmse":
        return name, float((outputs - targets).double().square().mean().sqrt())
    assert name == "accuracy"
    return name, float((outputs.argmax(dim=1) == targets).double().mean())


def loaded_batches(task: Task) -> Iterator[Any]:
    """Yield the batches of the test data of all clients, as torch's loader makes them."""
    for data in task.test_data if isinstance(task.test_data, list) else [task.test_data]:
        if isinstance(data, tuple):
            columns = [c if isinstance(c, Tensor) else torch.tensor(np.array(c)) for c in data]
            data = TensorDataset(*(c.float() if c.is_floating_point() else c for c in columns))
        yield from DataLoader(data, batch_size=250, collate_fn=task.collate_fn)


@every_example
def test_two_nodes_compute_what_two_simulated_devices_compute(
    example: Example, tmp_path: Path
) -> None:
    controller = FedAvg(local_steps=3, batch_size=8)
    task = example.task(NODES, tmp_path)
    simulated = example.train(task, NODES, controller=controller)
    tables = {
        "task": {"use": f"{example.name}:make_task", **example.task_arguments(NODES, tmp_path)},
        "devices": {"clients": NODES},
        "limits": LIMITS,
        "controller": {"name": "fedavg", "local_steps": 3, "batch_size": 8},
        "optimizer": example.optimizer,
        "training": {"learning_rate": example.learning_rate},
    }
    weights = train_on_nodes(tables, RunFolder(tmp_path / "run"), [FOLDER])
    assert_same_weights(weights, simulated.state_dict)


def test_only_adapters_are_sent(tmp_path: Path) -> None:
    (example,) = (example for example in EXAMPLES if example.name == "lora_transformer")
    result = example.train(example.task(NODES, tmp_path), NODES, controller="fedavg")
    adapters = [w for w in result.model.parameters() if w.requires_grad]
    frozen = [w for w in result.model.parameters() if not w.requires_grad]
    numbers = sum(weight.numel() for weight in adapters)
    assert sum(weight.numel() for weight in frozen) > 10 * numbers
    there_and_back, float_bytes = 2, 4
    assert result.history[-1].sent_bytes == ROUNDS * NODES * there_and_back * float_bytes * numbers
