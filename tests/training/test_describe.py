"""What the history records of the model and of clients."""

import math
from dataclasses import replace

import pytest
import torch

from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.describe import describe
from dynamite_fl.training.engine import Evaluation
from dynamite_fl.training.loop import begin, run_round
from dynamite_fl.training.round_record import RoundRecord, parse_line
from dynamite_fl.training.session import Session
from tests.trainings import digits, training

SOFTMAX = ("task.model=softmax", "controller.name=fedavg", "limits.rounds=6")


def records_of(*overrides: str) -> list[RoundRecord]:
    job = load_training_job(overrides=[*SOFTMAX, *overrides])
    return list(Session(build_training(job)).run().history)


def test_a_record_equals_the_one_that_is_read_from_a_file() -> None:
    for record in records_of("controller.name=dynamite"):
        assert parse_line(record.to_line()) == record


def described(evaluation: Evaluation | None) -> RoundRecord:
    given = training("fedavg")
    progress, played = run_round(given, begin(given))
    return describe(given, replace(played, evaluation=evaluation), progress.control)


def test_all_metrics_are_recorded_in_order_and_those_that_are_not_finite_are_none() -> None:
    judged = described(
        Evaluation(
            loss=math.inf,
            metrics={"rmse": 2.0, "perplexity": math.inf, "mae": math.nan},
            client_metrics=(1.0, math.nan, 3.0),
        )
    )
    assert list((judged.metrics or {}).items()) == [
        ("rmse", 2.0),
        ("perplexity", None),
        ("mae", None),
    ]
    assert judged.loss is None
    assert judged.client_metrics == (1.0, None, 3.0)
    assert judged.is_evaluated
    assert parse_line(judged.to_line()) == judged


def test_a_round_without_an_evaluation_has_no_metrics() -> None:
    record = described(None)
    assert not record.is_evaluated
    assert "client_metrics" not in record.values()
    assert described(Evaluation(loss=1.0)).metrics == {}


def test_clients_with_test_data_of_their_own_are_recorded_in_the_order_of_the_fleet() -> None:
    """The third of five clients has wrong labels, so that hardly anything there is right."""
    task = digits()
    rows = torch.arange(len(task.test)).chunk(5)
    parts = [task.test.batch(part.numpy()) for part in rows]
    parts[2] = (parts[2][0], (parts[2][1] + 1) % 10)
    given = training("fedavg", task=replace(task, test_data=parts))
    history = Session(given).run().history
    for record in history:
        assert record.client_metrics is not None
        assert len(record.client_metrics) == 5
        assert parse_line(record.to_line()) == record
    assert history.worst_client is not None
    assert history.worst_client[0] == 2
    sizes = [len(part) for part in rows]
    weighted = sum(
        s * (m or 0.0) for s, m in zip(sizes, history[-1].client_metrics or (), strict=True)
    )
    assert history.final == pytest.approx(weighted / sum(sizes))


def test_the_slowest_client_determines_the_duration_of_a_round() -> None:
    for record in records_of("training.learning_rate=0.05"):  # without trials of rates
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


def test_the_learning_rate_is_recorded_where_it_changes() -> None:
    given = "training.learning_rate=0.05"
    assert all(record.learning_rate is None for record in records_of(given))
    assert all(record.learning_rate is not None for record in records_of())
    rates = [record.learning_rate for record in records_of(given, "training.schedule=linear")]
    assert rates[0] == 0.05
    assert all(rate is not None and 0 < rate < 0.05 for rate in rates[1:])
