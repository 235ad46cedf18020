"""Training from Python."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dynamite_fl as fl
from dynamite_fl.controllers import FedAvg
from dynamite_fl.training.round_record import RoundRecord
from tests._cli.commands import invoke
from tests.regressions import RMSE
from tests.regressions import make_task as make_regression

LIMITS = fl.Limits(deadline=20, budget=20, cost_per_sample=0.002, cost_per_round=1, rounds=8)
DEVICES = fl.Devices(samples_per_second=[100, 200, 400], latency=0.1, jitter=0.1)


def signs() -> fl.Task:
    inputs = torch.randn(160, 3, generator=torch.Generator().manual_seed(1))
    labels = (inputs.sum(dim=1) > 0).long()
    return fl.Task(
        name="signs",
        model=lambda: nn.Linear(3, 2),
        loss=nn.CrossEntropyLoss(),
        train_data=(inputs[:120], labels[:120]),
        test_data=(inputs[120:], labels[120:]),
    )


def train(**settings: Any) -> fl.Result:
    usual = {"devices": DEVICES, "controller": "dynamite", "limits": LIMITS, "learning_rate": 0.2}
    return fl.train(settings.pop("task", None) or signs(), **{**usual, **settings})


def test_the_result_is_the_model_that_was_evaluated() -> None:
    task = signs()
    result = train(task=task)
    assert not result.model.training
    inputs, labels = task.test_data
    with torch.no_grad():
        correct = result.model(inputs).argmax(dim=1) == labels
    assert float(correct.double().mean()) == result.metrics["accuracy"]
    assert result.state_dict.keys() == {"weight", "bias"}
    assert result.stopped_by in ("rounds", "deadline", "budget")
    assert result.folder is None
    assert len(result.history) == result.history[-1].round


def test_a_regression_is_judged_by_its_errors(tmp_path: Path) -> None:
    """The metrics are those of the task in their order, and the loss."""
    folder = tmp_path / "run"
    result = train(task=make_regression(), controller="fedavg", folder=folder)
    assert list(result.metrics) == ["rmse", "mae", "loss"]
    assert result.metrics["rmse"] == pytest.approx(result.metrics["loss"] ** 0.5)
    assert repr(result).startswith(f"<Result: rmse {result.metrics['rmse']:.4g}, mae ")
    assert result.history.leading_metric == RMSE
    assert result.history.best == min(result.history.columns()["rmse"])
    assert result.worst_client is None
    assert fl.read_history(folder / "history.jsonl") == result.history
    shown = invoke("show", folder).stdout
    assert "RMSE" in shown
    assert "accuracy" not in shown


def test_the_worst_client_is_known(tmp_path: Path) -> None:
    devices = fl.Devices(samples_per_second=[100, 200, 400], name=["a", "b", "c"])
    result = train(task=make_regression(clients=3), devices=devices, folder=tmp_path / "run")
    errors = [error or 0.0 for error in result.history[-1].client_metrics or ()]
    assert len(errors) == 3
    assert result.worst_client == (2, max(errors))
    mean = sum(errors) / 3
    shown = invoke("show", tmp_path / "run").stdout
    assert f"c, {max(errors):.4g}; {mean:.4g} on average" in shown


def test_test_data_of_other_clients_is_refused() -> None:
    with pytest.raises(fl.InvalidInput, match="test_data is a list of 2, but there are 3 devices"):
        train(task=make_regression(clients=2))


def test_a_folder_is_refused_with_another_leading_metric(tmp_path: Path) -> None:
    interrupted(tmp_path / "run", task=make_regression())
    other = replace(make_regression(), metrics=["mae", "rmse"])
    words = "rmse, lower is better there, mae, lower is better here"
    with pytest.raises(fl.RunFolderError, match=words):
        train(task=other, folder=tmp_path / "run")
    assert train(task=make_regression(), folder=tmp_path / "run").stopped_by == "rounds"


def test_a_name_and_an_object_are_the_same() -> None:
    by_name, by_object = train(controller="fedavg"), train(controller=FedAvg())
    assert by_name.history == by_object.history
    assert by_name.history[-1].seconds <= LIMITS.deadline


def test_seeds_and_schedule() -> None:
    assert train(seed=3).history == train(seed=3).history
    assert train(seed=3).history != train(seed=4).history
    history = train(evaluate_every=3, probe_every=2, cohort=2).history
    columns = history.columns()
    assert {len(column) for column in columns.values()} == {len(history)}
    judged = [index for index, value in enumerate(columns["accuracy"], 1) if value is not None]
    assert judged[:2] == [3, 6]
    assert not columns["probed"][0]
    assert all(len(clients) == 2 for clients in columns["clients"])


def interrupted(folder: Path, after: int = 4, **settings: Any) -> None:
    """Begin a training that stops after some rounds."""

    def stop(record: RoundRecord) -> None:
        if record.round == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(folder=folder, on_round=stop, **settings)


def test_a_folder_keeps_it_and_goes_on(tmp_path: Path) -> None:
    whole = train().history
    interrupted(tmp_path / "run")
    assert train(folder=tmp_path / "run").history == whole
    again = train(folder=str(tmp_path / "run"), on_round=pytest.fail)
    assert again.history == whole
    assert again.folder == tmp_path / "run"


@pytest.mark.parametrize("server", ["fedavgm", fl.server.FedAdam(learning_rate=0.1), "fedexp"])
def test_a_server_goes_on_where_it_was(tmp_path: Path, server: Any) -> None:
    settings = {"server": server, "schedule": "linear", "warmup": 0.2, "final_rate": 0.1}
    whole = train(**settings)
    assert whole.history != train(**{**settings, "server": "average"}).history
    interrupted(tmp_path / "run", **settings)
    resumed = fl.resume(tmp_path / "run", task=signs())
    assert resumed.history == whole.history
    for name, weights in whole.state_dict.items():
        assert torch.equal(weights, resumed.state_dict[name])


def test_resume_goes_on_from_python_and_from_the_command(tmp_path: Path) -> None:
    """A folder made from Python and one made by a command are the same kind of folder."""
    task = fl.make_task("softmax", "digits")
    settings: dict[str, Any] = {"task": task, "partition": fl.partitions.dirichlet(alpha=0.5)}
    train(folder=tmp_path / "whole", **settings)
    for name in ("python", "command"):
        interrupted(tmp_path / name, **settings)
    assert fl.resume(tmp_path / "python").metrics["accuracy"] > 0
    assert invoke("resume", tmp_path / "command").exit_code == 0
    whole = (tmp_path / "whole" / "history.jsonl").read_bytes()
    for name in ("python", "command"):
        assert (tmp_path / name / "history.jsonl").read_bytes() == whole
        assert invoke("show", tmp_path / name).exit_code == 0
    assert invoke("report", tmp_path / "python").exit_code == 0


def test_a_task_made_in_python_is_asked_for(tmp_path: Path) -> None:
    interrupted(tmp_path / "run")
    refused = invoke("resume", tmp_path / "run")
    assert refused.exit_code == 2
    assert "--task module:function" in refused.stderr
    with pytest.raises(fl.RunFolderError, match="made in Python"):
        fl.resume(tmp_path / "run")
    assert fl.resume(tmp_path / "run", task=signs()).history == train().history


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"learning_rate": 99.0}, r"training.learning_rate is 0.2 there and 99.0 here"),
        ({"seed": 1}, r"training.seed is 0 there and 1 here"),
        ({"server": "fedyogi"}, r"server is not set there and . name = .fedyogi."),
        ({"controller": "fedavg"}, r"controller.name is .dynamite. there and .fedavg. here"),
        ({"devices": fl.Devices(samples_per_second=[1, 2, 3])}, r"devices.samples_per_second"),
        ({"partition": fl.partitions.unequal(spread=0.5)}, r"partition.kind"),
    ],
)
def test_a_run_of_another_job_is_refused_with_what_differs(
    tmp_path: Path, changed: dict[str, Any], difference: str
) -> None:
    train(folder=tmp_path / "run")
    with pytest.raises(fl.RunFolderError, match=difference):
        train(folder=tmp_path / "run", **changed)


def test_a_run_with_other_data_is_refused(tmp_path: Path) -> None:
    train(folder=tmp_path / "run")
    other = signs()
    other.train_data[0][7, 1] += 1
    with pytest.raises(fl.RunFolderError, match="the training data changed"):
        train(task=other, folder=tmp_path / "run")


def test_fleets_by_name_and_record() -> None:
    assert len(train(devices="testbed5", controller="fedavg").history) > 0
    fleet = fl.Fleet(
        samples=[40, 40, 40],
        gradient_variance=1,
        samples_per_second=[100, 200, 400],
        comm_seconds=0.1,
    )
    plain = fl.Devices(samples_per_second=[100, 200, 400], latency=0.1)
    assert train(devices=fleet).history == train(devices=plain).history


def test_devices_from_a_file_are_kept_as_they_were(tmp_path: Path) -> None:
    """The file may change later; the run goes on with the devices that it began with."""
    file = tmp_path / "devices.csv"
    file.write_text("name,samples_per_second,latency\na,100,0.1\nb,200,0.2\n")
    whole = train(devices=str(file)).history
    interrupted(tmp_path / "run", devices=str(file))
    file.write_text("name,samples_per_second,latency\na,1,9\nb,2,9\n")
    assert fl.resume(tmp_path / "run", task=signs()).history == whole
    kept = tomllib.loads((tmp_path / "run" / "job.toml").read_text())["devices"]
    assert kept["samples_per_second"] == [100.0, 200.0]
    with pytest.raises(fl.RunFolderError, match=r"devices\.samples_per_second"):
        train(devices=str(file), folder=tmp_path / "run")


@dataclass(frozen=True, kw_only=True)
class ThreeSteps(FedAvg):
    """A controller of a user's own."""

    local_steps: int = 3


def test_a_controller_of_ones_own(tmp_path: Path) -> None:
    interrupted(tmp_path / "run", controller=ThreeSteps(batch_size=9))
    kept = tomllib.loads((tmp_path / "run" / "job.toml").read_text())["controller"]
    assert kept == {"name": f"{__name__}:ThreeSteps", "batch_size": 9}
    resumed = fl.resume(tmp_path / "run", task=signs())
    assert resumed.history[-1].local_steps == 3


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(fl.InvalidInput, match="did you mean 'fedavg'"):
        train(controller="fedavgg")
    with pytest.raises(fl.InvalidInput, match=r"training\.seed is -1"):
        train(seed=-1)
    with pytest.raises(fl.InvalidInput, match="devices is a list"):
        train(devices=[1, 2])
    short = fl.Limits(deadline=0.05, budget=9, cost_per_sample=0, cost_per_round=1)
    with pytest.raises(fl.Infeasible):
        train(limits=short)


def test_torch_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    train(controller="fedavg")
    assert torch.get_num_threads() == before


def test_a_resume_with_another_controller_is_refused(tmp_path: Path) -> None:
    interrupted(tmp_path / "run", controller=FedAvg(local_steps=2, batch_size=9))
    with pytest.raises(fl.RunFolderError, match=r"controller\.local_steps"):
        fl.resume(tmp_path / "run", task=signs(), controller=FedAvg(local_steps=50, batch_size=9))


@dataclass(frozen=True, kw_only=True)
class WithFunction(FedAvg):
    """A controller with a setting that TOML has no value for."""

    choose: Any = max


def test_a_controller_that_toml_cannot_hold_is_asked_for(tmp_path: Path) -> None:
    interrupted(tmp_path / "run", controller=WithFunction(choose=min))
    with pytest.raises(fl.RunFolderError, match=r"settings choose.*controller=\.\.\."):
        fl.resume(tmp_path / "run", task=signs())
    same = WithFunction(choose=min)
    assert fl.resume(tmp_path / "run", task=signs(), controller=same).stopped_by == "rounds"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"limits": {}}, "limits is a dict: give a Limits"),
        ({"task": 3}, "task is a int: give a Task or module:function"),
        ({"partition": "dirichlet"}, "partition is a str: give a recipe"),
        ({"stream": "smooth"}, "stream is a str: give a Stream"),
        ({"controller": FedAvg}, "controller is <class .*: give a name"),
        ({"controller": 3}, "controller is 3: give a name"),
        ({"server": fl.server.FedAdam}, "server is <class .*: give a name"),
        ({"server": "fedexpo"}, "did you mean 'fedexp'"),
        ({"track": "mlflow"}, "training.track must be a list"),
        ({"cohort": 9}, "training.cohort is 9, but there are 3 devices"),
        ({"devices": "vm2"}, "did you mean 'vm20'"),
    ],
)
def test_arguments_of_another_type_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(fl.InvalidInput, match=message):
        train(**wrong)


def test_a_frozen_model_can_be_evaluated() -> None:
    task = fl.make_task("softmax", "digits")
    model = task.new_model(seed=0)
    expected = fl.evaluate(task, model)
    assert fl.evaluate(task, model.requires_grad_(False)) == expected
