"""The parts of a job that nodes and servers use."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dynamite_fl.errors import JobError
from dynamite_fl.flower.fleet_rules import MOST_REPLY_BYTES, FleetRules
from dynamite_fl.flower.job_parts import build_client, build_training
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.job.build_data import number_of_devices
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.averaging import ClippedMean
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.server_optimizer import FedYogi
from tests.flower.fleet import grid
from tests.trainings import digits


def test_a_node_has_one_part_of_the_data_or_all() -> None:
    job = load_training_job()
    assert number_of_devices(job) == 10
    parts = [build_client(job, None, part).indices.size for part in range(10)]
    assert sum(parts) == build_client(job, None, None).indices.size
    with pytest.raises(JobError, match="--part is 10, but the job has 10 devices: use 0 to 9"):
        build_client(job, None, 10)


def test_a_node_that_is_to_send_only_sketches(tmp_path: Path) -> None:
    job = load_training_job(None, ['training.probe_gradient="sketch"'])
    assert build_client(job, tmp_path, 0).settings.only_sketches


def test_a_server_trains_as_the_job_says(tmp_path: Path) -> None:
    overrides = ["devices={clients=5}", "server=fedyogi", "training.schedule=linear"]
    overrides.append("training.learning_rate=0.05")
    job = load_training_job(None, [*overrides, "task.model=perceptron"])
    rules = FleetRules(state=None)
    link: Any = SimpleNamespace(grid=grid(tmp_path), registered={}, rules=rules)
    training = build_training(
        job,
        digits("perceptron"),
        RunFolder(tmp_path),
        link,
        timeouts=Timeouts(),
        min_nodes=5,
    )
    assert rules.most_reply_bytes < MOST_REPLY_BYTES  # what this model needs
    assert training.averaging == ClippedMean()
    assert training.server == FedYogi()
    assert training.learning_rate == RateSchedule(0.05, "linear")
