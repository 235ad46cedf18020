"""Training from Python."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dynamite_fl.control.fedavg import FedAvg
from dynamite_fl.engine.devices import Devices
from dynamite_fl.plan.infeasible import Infeasible
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.report.history import History, Line
from dynamite_fl.simulation import simulate
from dynamite_fl.task.partition import wang
from dynamite_fl.task.task import Task

LIMITS = Limits(deadline=20, budget=20, cost_per_sample=0.002, cost_per_round=1, rounds=8)
DEVICES = Devices(samples_per_second=[100, 200, 400], latency=0.1, jitter=0.1)


def signs() -> Task:
    inputs = torch.randn(160, 3, generator=torch.Generator().manual_seed(1))
    labels = (inputs.sum(dim=1) > 0).long()
    return Task(
        name="signs",
        make_model=lambda: nn.Linear(3, 2),
        loss=nn.CrossEntropyLoss(reduction="none"),
        correct=lambda outputs, targets: outputs.argmax(dim=1) == targets,
        train_inputs=inputs[:120],
        train_targets=labels[:120],
        test_inputs=inputs[120:],
        test_targets=labels[120:],
    )


def train(devices: Any = DEVICES, controller: Any = "dynamite", **settings: Any) -> History:
    task = signs()
    limits = settings.pop("limits", LIMITS)
    clients = settings.pop("clients", 3)
    split = wang(task.train_targets.numpy(), clients, case=1)
    return simulate(
        task, devices, limits, controller, partition=split, learning_rate=0.2, **settings
    )


def test_a_name_and_an_object_are_the_same() -> None:
    by_name, by_object = train(controller="fedavg"), train(controller=FedAvg())
    assert by_name.lines == by_object.lines
    assert by_name.lines[-1]["seconds"] <= LIMITS.deadline


def test_seeds_and_schedule() -> None:
    assert train(seed=3).lines == train(seed=3).lines
    assert train(seed=3).lines != train(seed=4).lines
    history = train(evaluate_every=3, probe_every=2, cohort=2)
    columns = history.columns()
    assert {len(column) for column in columns.values()} == {len(history)}
    judged = [round_ for round_, each in enumerate(columns["accuracy"], 1) if each is not None]
    assert judged[:2] == [3, 6]
    assert not columns["probed"][0]
    assert all(len(clients) == 2 for clients in columns["clients"])


def test_a_folder_keeps_it_and_goes_on(tmp_path: Path) -> None:
    whole, seen = train(), list[Line]()

    def stop(line: Line) -> None:
        seen.append(line)
        if line["round"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(folder=tmp_path / "run", on_round=stop)
    assert len(seen) == 4
    assert train(folder=tmp_path / "run").lines == whole.lines
    assert train(folder=str(tmp_path / "run"), on_round=pytest.fail).lines == whole.lines
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_fleets_by_name_and_record() -> None:
    assert len(train("testbed5", "fedavg", clients=5, limits=LIMITS).lines) > 0
    fleet = Fleet(
        samples=[40, 40, 40],
        gradient_variance=1,
        samples_per_second=[100, 200, 400],
        comm_seconds=0.1,
    )
    plain = Devices(samples_per_second=[100, 200, 400], latency=0.1)
    assert train(fleet).lines == train(plain).lines


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'fedavg'"):
        train(controller="fedavgg")
    with pytest.raises(ValueError, match="5 clients, but there are 3"):
        train(clients=5)
    short = Limits(deadline=0.05, budget=9, cost_per_sample=0, cost_per_round=1)
    with pytest.raises(Infeasible):
        train(limits=short)


def test_torch_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    train(controller="fedavg")
    assert torch.get_num_threads() == before
