"""From a training job to what it describes."""

from typing import Any

import numpy as np
import pytest

from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.errors import JobError, RunFolderError
from dynamite_fl.job.build import (
    Given,
    build_controller,
    build_partition,
    build_stream,
    build_task,
    build_training,
    number_of_devices,
    schedule_of,
)
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.partitions import wang
from dynamite_fl.training.cohort import Selection
from tests.trainings import SETTINGS, digits

SMALL = ('task={model="softmax", dataset="digits"}', "devices={samples_per_second=[100, 200, 300]}")


def job(*overrides: str) -> TrainingJob:
    return load_training_job(overrides=[*SMALL, *overrides])


def no_pilot(_: int) -> dict[str, Any]:
    raise AssertionError("only CoOptFL needs a pilot")


def test_a_training_has_all_that_the_job_describes() -> None:
    made: Any = build_training(job("training.seed=3", "training.workers=2", "controller=fedavg"))
    assert made.engine.task.name == "softmax on digits"
    assert made.controller == FedAvg()
    assert len(made.fleet) == len(made.engine.partition) == 3
    assert (made.engine.seed, made.engine.workers, made.schedule.seed) == (3, 2, 3)
    assert made.limits == job().limits
    assert made.engine.streams is None


def test_what_was_made_in_python_takes_the_place_of_tables() -> None:
    task, controller = digits(), FedAvg(local_steps=7)
    made: Any = build_training(job(), given=Given(task, wang(case=2), controller))
    assert made.engine.task is task
    assert made.controller is controller
    expected = wang(case=2).split(task.train_targets.numpy(), 3, 0)
    for client in range(3):
        np.testing.assert_array_equal(
            made.engine.partition.indices(client), expected.indices(client)
        )


def test_a_task_made_in_python_cannot_be_made_from_its_table() -> None:
    with pytest.raises(RunFolderError, match=r"was made in Python: go on with"):
        build_task(job('task={made_in_python="mine"}'))


def test_a_node_needs_no_fleet_and_a_server_no_partition() -> None:
    assert number_of_devices(job()) == 3
    assert number_of_devices(job("devices=vm20")) == 20
    partition = build_partition(job(), digits(), clients=5)
    assert len(partition) == 5


def test_a_table_stream_makes_streams() -> None:
    assert build_stream(job()) is None
    stream = build_stream(job('stream={preset="burst", scale=0.02}'))
    assert stream is not None
    made: Any = build_training(job('stream={preset="burst", scale=0.02}'))
    assert made.engine.streams is not None


def test_settings_of_a_controller_and_of_cooptfl_from_a_pilot() -> None:
    made = build_controller(job('controller={name="fedavg", local_steps=3}'), no_pilot)
    assert made == FedAvg(local_steps=3)
    asked: list[int] = []

    def pilot(rounds: int) -> dict[str, Any]:
        asked.append(rounds)
        return SETTINGS["cooptfl"]

    for table in ("controller=cooptfl", 'controller={name="cooptfl", pilot_rounds=2}'):
        planned: Any = build_controller(job(table), pilot)
        assert planned.geometry == SETTINGS["cooptfl"]["geometry"]
    assert asked == [5, 2]


def test_the_schedule_is_that_of_the_table_training() -> None:
    schedule = schedule_of(
        job(
            "training.cohort=2",
            "training.select_by=data",
            "training.evaluate_every=4",
            "training.probe_every=3",
            "training.free_probes=true",
        )
    )
    assert schedule.selection == Selection(2, "data")
    assert (schedule.evaluate_every, schedule.probe_every, schedule.free_probes) == (4, 3, True)


def test_sketches_of_gradients() -> None:
    job = load_training_job(overrides=["training.probe_gradient=sketch"])
    made: Any = build_training(job)
    assert made.schedule.sketches
    assert made.engine.client(0).settings.only_sketches
    with pytest.raises(JobError, match=r"there is no training\.probe_gradient 'half'"):
        build_training(load_training_job(overrides=["training.probe_gradient=half"]))
