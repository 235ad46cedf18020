"""The parts of a job that nodes and servers use."""

from pathlib import Path

import pytest

from dynamite_fl.errors import JobError
from dynamite_fl.flower.job_parts import build_client
from dynamite_fl.job.build import number_of_devices
from dynamite_fl.job.training import load_training_job


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
