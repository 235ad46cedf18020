"""What every controller must do, whatever it is after."""

import math
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dynamite_fl.control.controllers import CONTROLLERS
from dynamite_fl.engine.loop import Progress, Training, begin, rounds
from dynamite_fl.engine.run import RunFolder, run, save
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.records import FloatArray, IntArray
from dynamite_fl.stream.buffer import POLICIES
from tests.engine.trainings import STREAM, training

every_controller = pytest.mark.parametrize("name", CONTROLLERS)
every_buffer = pytest.mark.parametrize("buffer", POLICIES)


def play(given: Training) -> tuple[Progress, list[Any]]:
    """Train to the end, checking every plan and every charge on the way."""
    played = []
    limits = given.limits
    for latest, each in rounds(given, begin(given)):
        progress = latest
        if each is None:
            break
        sizes, cohort = each.plan.batch_sizes, each.outcome.report.clients
        assert (sizes >= 1).all()
        assert (sizes <= at_hand(given, cohort, each.ledger.rounds)).all()
        assert 1 <= each.plan.local_steps <= limits.max_local_steps
        assert each.ledger.seconds <= limits.deadline
        assert each.ledger.cost <= limits.budget
        played.append(each)
    assert progress.ended in ("rounds", "deadline", "budget")
    assert limits.rounds is None or progress.ledger.rounds <= limits.rounds
    return progress, played


def at_hand(given: Training, cohort: IntArray, round_index: int) -> FloatArray:
    """How many samples each has to draw from; one that has none yet counts as if it had one."""
    assert isinstance(given.engine, SimulatedEngine)
    streams = given.engine.streams
    if streams is None:
        return given.fleet.at_hand[cohort]
    seen = np.maximum(streams.seen(cohort, round_index), 1)
    return np.minimum(seen, streams.storage.size or np.inf)


@every_controller
def test_learns_within_the_limits(name: str) -> None:
    given = training(name)
    progress, played = play(given)
    assert len(played) >= 3
    last = played[-1].evaluation
    assert last is not None
    assert last.accuracy > 0.25  # ten classes, from a start that knows none
    assert last.accuracy == given.engine.evaluate(progress.weights, 0).accuracy


@every_controller
def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    first, again = (play(training(name, seed=3))[0] for _ in range(2))
    assert torch.equal(first.weights, again.weights)
    assert first.ledger == again.ledger
    other = play(training(name, seed=4))[0]
    assert not torch.equal(first.weights, other.weights)


@every_controller
@every_buffer
def test_learns_from_a_stream(name: str, buffer: str) -> None:
    given = training(name, stream={**STREAM, "order": "iid", "buffer": buffer}, seed=1)
    _, played = play(given)
    seen = [each.outcome.report.samples for each in played]
    assert np.nanmin(seen[-1]) > np.nanmax(seen[0])
    last = played[-1].evaluation
    assert last is not None
    assert last.stream_loss is not None
    assert last.stream_loss < math.log(10)  # that of ten classes alike, of which one knows nothing


@every_controller
def test_an_interruption_changes_nothing(name: str, tmp_path: Path) -> None:
    check_interruption(name, tmp_path, None)


@every_controller
@every_buffer
def test_an_interruption_amid_a_stream_changes_nothing(
    name: str, buffer: str, tmp_path: Path
) -> None:
    check_interruption(name, tmp_path, {**STREAM, "buffer": buffer})


def check_interruption(name: str, tmp_path: Path, stream: dict[str, Any] | None) -> None:
    whole = list(run(training(name, stream=stream), RunFolder(tmp_path / "whole")))
    folder = RunFolder(tmp_path / "cut")
    given = training(name, stream=stream)
    for progress, line in run(given, folder):
        if line is not None and line["round"] == 2:
            save(given, folder, progress)
            break
    resumed = list(run(training(name, stream=stream), folder))
    assert resumed[0][1] is not None
    assert resumed[0][1]["round"] == 3
    assert torch.equal(whole[-1][0].weights, resumed[-1][0].weights)
    assert folder.history.read_bytes() == (tmp_path / "whole" / "history.jsonl").read_bytes()
    assert folder.model.read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


@every_controller
def test_cohorts(name: str) -> None:
    _, played = play(training(name, cohort=2))
    assert {each.outcome.report.clients.size for each in played} == {2}
    seen = np.unique(np.concatenate([each.outcome.report.clients for each in played]))
    assert seen.size > 2


@every_controller
def test_absent_clients(name: str) -> None:
    _, played = play(training(name, devices={"availability": 0.5, "dropout": 0.2}, seed=1))
    present = np.concatenate([each.outcome.report.present for each in played])
    assert 0 < present.mean() < 1


@every_controller
def test_open_rounds(name: str) -> None:
    progress, _ = play(training(name, limits={"rounds": None, "deadline": 4.0}))
    assert progress.ended in ("deadline", "budget")


@every_controller
def test_state_is_data(name: str) -> None:
    given = training(name)
    for progress, _ in rounds(given, begin(given)):
        check_is_data(progress.control)
        given.controller.describe(progress.control)


def check_is_data(value: Any) -> None:
    if is_dataclass(value):
        assert getattr(value, "__dataclass_params__").frozen  # noqa: B009  of no declared type
        for field in fields(value):
            check_is_data(getattr(value, field.name))
    elif isinstance(value, tuple):
        for each in value:
            check_is_data(each)
    else:
        assert value is None or isinstance(
            value, bool | int | float | str | np.ndarray | np.generic
        )
