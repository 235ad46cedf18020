"""What the history records of clients."""

import pytest

from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.round_record import RoundRecord, parse_line
from dynamite_fl.training.session import Session

SOFTMAX = ("task.model=softmax", "controller.name=fedavg", "limits.rounds=6")


def records_of(*overrides: str) -> list[RoundRecord]:
    job = load_training_job(overrides=[*SOFTMAX, *overrides])
    return list(Session(build_training(job)).run().history)


def test_a_record_equals_the_one_that_is_read_from_a_file() -> None:
    for record in records_of("controller.name=dynamite"):
        assert parse_line(record.to_line()) == record


def test_the_slowest_client_determines_the_duration_of_a_round() -> None:
    for record in records_of():
        steps, comms = record.step_seconds or (), record.comm_seconds or ()
        seconds = [
            record.local_steps * (step or 0.0) + (comm or 0.0)
            for step, comm in zip(steps, comms, strict=True)
        ]
        assert record.round_seconds == pytest.approx(max(seconds), rel=1e-5)
        assert record.clients is not None
        assert record.slowest == record.clients[seconds.index(max(seconds))]
        sizes = [size for size in record.batch_sizes or () if size is not None]
        assert (record.batch_least, record.batch_most) == (min(sizes), max(sizes))
        assert sum(count or 0 for count in record.arrived or ()) == 1437  # 80% of the digits


def test_absent_clients_have_no_times() -> None:
    devices = "devices={samples_per_second=[100, 200, 400], dropout=[0.0, 0.7, 0.7]}"
    records = records_of(devices, "limits.rounds=20")
    assert any(record.absent for record in records)
    for record in records:
        for column in (record.step_seconds, record.comm_seconds, record.arrived):
            pairs = zip(record.clients or (), column or (), strict=True)
            assert tuple(client for client, value in pairs if value is None) == record.absent
        assert record.slowest not in record.absent


def test_lines_stay_short_however_many_clients_there_are() -> None:
    many = ('task={model="softmax", dataset="synthetic"}', 'partition={kind="by_owner"}')
    limits = ("limits.deadline=inf", "limits.budget=inf", "limits.rounds=2")
    for record in records_of(*many, *limits, 'devices={fleet="phones", clients=300}'):
        assert record.clients is None
        assert record.step_seconds is None
        assert record.slowest is not None
        assert 0 <= record.slowest < 300
        assert len(record.to_line()) - len(str(list(record.absent))) < 1500
    listed = records_of(*many, *limits, 'devices={fleet="phones", clients=200}')
    assert all(len(record.to_line()) < 12_000 for record in listed)
