"""What a line of the history says of clients."""

from typing import Any

import pytest

from dynamite_fl.engine.run import run
from dynamite_fl.report.history import to_line
from dynamite_fl.run_config import load_training_job, make_training

SOFTMAX = ("task.model=softmax", "controller.name=fedavg", "limits.rounds=6")


def lines_of(*overrides: str) -> list[dict[str, Any]]:
    job = load_training_job(overrides=[*SOFTMAX, *overrides])
    return [line for _, line in run(make_training(job)) if line is not None]


def test_the_slowest_made_the_round_as_long_as_it_was() -> None:
    for line in lines_of():
        seconds = [
            line["local_steps"] * step + comm
            for step, comm in zip(line["step_seconds"], line["comm_seconds"], strict=True)
        ]
        assert line["round_seconds"] == pytest.approx(max(seconds), rel=1e-5)
        assert line["slowest"] == line["clients"][seconds.index(max(seconds))]
        assert (line["batch_least"], line["batch_most"]) == (
            min(line["batch_sizes"]),
            max(line["batch_sizes"]),
        )
        assert sum(line["arrived"]) == 1437  # four fifths of the digits


def test_who_was_absent_has_no_times() -> None:
    devices = "devices={samples_per_second=[100, 200, 400], dropout=[0.0, 0.7, 0.7]}"
    lines = lines_of(devices, "limits.rounds=20")
    assert any(line["absent"] for line in lines)
    for line in lines:
        for key in ("step_seconds", "comm_seconds", "arrived"):
            away = [c for c, value in zip(line["clients"], line[key], strict=True) if value is None]
            assert away == line["absent"]
        assert line["slowest"] not in line["absent"]


def test_lines_stay_short_however_many_clients_there_are() -> None:
    many = ('task={model="softmax", dataset="synthetic"}', 'partition={kind="owner"}')
    limits = ("limits.deadline=inf", "limits.budget=inf", "limits.rounds=2")
    lines = lines_of(*many, *limits, 'devices={fleet="phones", clients=300}')
    for line in lines:
        assert "clients" not in line
        assert "step_seconds" not in line
        assert 0 <= line["slowest"] < 300
        absent = len(str(line["absent"]))
        assert len(to_line(line)) - absent < 1500
    listed = lines_of(*many, *limits, 'devices={fleet="phones", clients=200}')
    assert all(len(to_line(line)) < 12_000 for line in listed)
