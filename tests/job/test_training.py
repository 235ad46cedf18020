"""A training job: its tables, their defaults and their checks."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from dynamite_fl.errors import JobError
from dynamite_fl.job.read import to_toml
from dynamite_fl.job.training import (
    DEFAULT_CONTROLLER,
    DEFAULT_DEVICES,
    DEFAULT_OPTIMIZER,
    DEFAULT_PARTITION,
    TrainingJob,
    load_training_job,
    resolve_tables,
)
from dynamite_fl.training.privacy import Privacy
from dynamite_fl.training.server_optimizer import (
    Average,
    Extrapolation,
    FedAdam,
    FedExP,
    ServerOptimizer,
)

LEAST: dict[str, Any] = {
    "task": "mine:make_task",
    "limits": {"deadline": 9, "budget": 9, "cost_per_sample": 0, "cost_per_round": 0},
    "training": {"learning_rate": 0.1},
}


def test_tables_that_are_left_out_have_defaults() -> None:
    tables = resolve_tables(LEAST, Path())
    assert tables["task"] == {"use": "mine:make_task"}
    assert tables["controller"] == {"name": DEFAULT_CONTROLLER}
    assert tables["devices"] == DEFAULT_DEVICES
    assert tables["partition"] == DEFAULT_PARTITION
    assert "server" not in tables  # it depends on the controller and the rate
    assert tables["optimizer"] == {"name": DEFAULT_OPTIMIZER}
    assert "stream" not in tables


@pytest.mark.parametrize("missing", ["task", "limits"])
def test_tables_that_are_needed(missing: str) -> None:
    tables = {name: table for name, table in LEAST.items() if name != missing}
    with pytest.raises(JobError, match=rf"the job lacks \[{missing}\]"):
        resolve_tables(tables, Path())


@pytest.mark.parametrize("entry", ["fedavg", {"name": "fedavg", "batch_size": None}])
def test_a_controller_is_a_name_or_a_table(entry: object) -> None:
    tables = resolve_tables({**LEAST, "controller": entry}, Path())
    assert tables["controller"] == {"name": "fedavg"}


def test_an_optimizer_is_a_name_or_a_table() -> None:
    for entry in ("AdamW", {"name": "AdamW", "weight_decay": None}):
        assert resolve_tables({**LEAST, "optimizer": entry}, Path())["optimizer"] == {
            "name": "AdamW"
        }
    table = {"name": "SGD", "momentum": 0.9, "keep_state": True}
    assert resolve_tables({**LEAST, "optimizer": table}, Path())["optimizer"] == table
    with pytest.raises(JobError, match='optimizer needs a name: optimizer = "AdamW"'):
        resolve_tables({**LEAST, "optimizer": {"momentum": 0.9}}, Path())


@pytest.mark.parametrize("entry", [3, {"name": 3}, {"batch_size": 3}])
def test_a_controller_without_a_name_is_refused(entry: object) -> None:
    with pytest.raises(JobError, match=r"controller (needs a name|must be a table)"):
        resolve_tables({**LEAST, "controller": entry}, Path())


@pytest.mark.parametrize("entry", ["fedavgm", {"name": "fedavgm", "momentum": None}])
def test_a_server_is_a_name_or_a_table_and_gets_all_its_settings(entry: object) -> None:
    tables = resolve_tables({**LEAST, "server": entry}, Path())
    assert tables["server"] == {"name": "fedavgm", "learning_rate": 1.0, "momentum": 0.9}
    again = tomllib.loads(to_toml(tables))
    assert resolve_tables(again, Path()) == tables


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (3, "server must be a table"),
        ({"momentum": 0.5}, "server needs a name"),
        ("fedavg", "did you mean 'fedavgm'"),
        ({"name": "fedadam", "beta": 0.5}, "server fedadam has no setting 'beta'"),
        ({"name": "fedexp", "epsilon": 0}, r"server\.epsilon is 0"),
    ],
)
def test_a_server_that_cannot_be_used(entry: object, complaint: str) -> None:
    with pytest.raises(JobError, match=complaint):
        resolve_tables({**LEAST, "server": entry}, Path())


def test_a_setting_of_a_server_that_was_named_in_short() -> None:
    job = load_training_job(overrides=["server=fedadam", "server.tau=0.5"])
    assert job.server == FedAdam(tau=0.5)


def test_a_tracker_that_is_named_twice_is_told_once() -> None:
    job = load_training_job(overrides=['training.track=["mlflow", "tensorboard", "mlflow"]'])
    assert job.trackers == ("mlflow", "tensorboard")


def test_modules_are_looked_for_beside_the_job_file_first(tmp_path: Path) -> None:
    job = load_training_job()
    (tmp_path / "job.toml").write_text(
        '[task]\nmodel = "svm"\ndataset = "digits"\n[limits]\ndeadline = 9\nbudget = 9\n'
        "cost_per_sample = 0\ncost_per_round = 0\n[training]\nlearning_rate = 1\n"
    )
    beside = load_training_job(tmp_path / "job.toml", folders=[Path("/elsewhere")])
    assert job.folders == (Path().absolute(),)
    assert beside.folders == (tmp_path, Path("/elsewhere"))


def test_a_job_with_other_tables_leaves_the_first_as_it_was() -> None:
    job = load_training_job()
    other = job.with_tables(controller={"name": "fedavg"})
    assert other.controller_name == "fedavg"
    assert job.controller_name == DEFAULT_CONTROLLER
    assert other.folders == job.folders


def test_the_table_privacy_gets_its_defaults() -> None:
    assert load_training_job().privacy is None
    job = load_training_job(overrides=["privacy.clip_norm=0.5"])
    assert job.privacy == Privacy(clip_norm=0.5)
    assert job.tables["privacy"] == {"clip_norm": 0.5, "noise_at": "server"}
    with pytest.raises(JobError, match=r"privacy\.clip_norm"):
        load_training_job(overrides=["privacy.clip_norm=-1"])
    with pytest.raises(JobError, match="privacy has no key 'clip'"):
        load_training_job(overrides=["privacy.clip=1"])


@pytest.mark.parametrize(
    ("tables", "server"),
    [
        ({"training": {}}, Extrapolation()),
        ({}, Average()),
        ({"training": {}, "controller": "fedavg"}, Average()),
        ({"training": {}, "server": "average"}, Average()),
        ({"server": "fedexp", "controller": "fedavg"}, FedExP()),
    ],
)
def test_the_server_extrapolates_if_we_choose_the_rate(
    tables: dict[str, Any], server: ServerOptimizer
) -> None:
    assert TrainingJob(resolve_tables({**LEAST, **tables}, Path())).server == server
