"""Rounds of the engine over a Grid that needs no network."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from torch import nn

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.client.sketch import sketch_size
from dynamite_fl.client.step_path import StepPath
from dynamite_fl.errors import TooFewNodes, UserCodeError
from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.messages import Introduction, TrainReply, from_content, to_content
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.flower.waiting import WaitStatus
from dynamite_fl.flower.wire import pack, unpack
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.engine import Engine
from tests.flower.fleet import CLIENTS, app, client, grid, order
from tests.flower.local_grid import App, LocalGrid
from tests.trainings import digits, training

QUICK = Timeouts(round_factor=0.0, min_round_seconds=0.05, join_seconds=0.05)


def engine_of(nodes: LocalGrid, **settings: Any) -> FlowerEngine:
    settings = {"timeouts": QUICK, **settings}
    engine = FlowerEngine(nodes, digits("perceptron"), CLIENTS, **settings)
    engine.enroll()
    return engine


def play_five(engine: Engine) -> tuple[torch.Tensor, list[RoundReport]]:
    """Return the weights after five rounds that are the same for every engine, and the reports."""
    weights, reports = engine.first_weights(), []
    for index in range(1, 6):
        outcome = engine.run_round(order(index, weights))
        assert outcome.report.present.all()
        weights = average(outcome.updates, outcome.report.samples)
        reports.append(outcome.report)
    return weights, reports


def changed(good: App, change: Callable[[RecordDict], RecordDict]) -> App:
    """Return a device that computes correctly, but changes what it sends."""

    def handle(message: Message, context: Context) -> Message:
        sent = good(message, context)
        if message.metadata.message_type != "train":
            return sent
        return Message(change(sent.content), reply_to=message)

    return handle


def with_values(content: RecordDict, *, reply: dict[str, Any] = {}, **work: Any) -> RecordDict:  # noqa: B006
    """Return a message with other values in its reply and its work."""
    sent = from_content(content, TrainReply)
    return to_content(
        replace(sent, reply=replace(sent.reply, **reply), work=replace(sent.work, **work))
    )


def test_weights_and_figures_equal_those_of_simulated_devices(tmp_path: Path) -> None:
    ours, our_reports = play_five(engine_of(grid(tmp_path)))
    simulated = training(model="perceptron", devices={"jitter": 0.0}).engine
    theirs, their_reports = play_five(simulated)
    assert torch.equal(ours, theirs)
    for our, their in zip(our_reports, their_reports, strict=True):
        assert our.probe is not None
        assert their.probe is not None
        for name, column in vars(their.probe).items():
            np.testing.assert_array_equal(getattr(our.probe, name), column)


def test_paths_equal_those_of_simulated_devices(tmp_path: Path) -> None:
    simulated = training(model="perceptron", devices={"jitter": 0.0}).engine
    weights = simulated.first_weights()
    asked = order(1, weights, probe=False, path=True)
    ours = engine_of(grid(tmp_path)).run_round(asked)
    assert len(ours.paths) == CLIENTS
    for our, their in zip(ours.paths, simulated.run_round(asked).paths, strict=True):
        assert torch.equal(our.first_half, their.first_half)
        assert our.gradient_variance == their.gradient_variance
    sketched = CLIENTS * 4 * sketch_size(weights.numel())
    assert ours.sent_bytes == 2 * CLIENTS * 4 * weights.numel() + sketched


def test_sketches_equal_those_of_simulated_devices(tmp_path: Path) -> None:
    """No whole gradient leaves a device."""
    sizes = []

    def noted(content: RecordDict) -> RecordDict:
        gradient = from_content(content, TrainReply).reply.gradient
        sizes.append(None if gradient is None else gradient.numel())
        return content

    simulated = training(model="perceptron", devices={"jitter": 0.0}).engine
    weights = simulated.first_weights()
    nodes = grid(tmp_path)
    nodes.apps[1] = changed(nodes.apps[1], noted)
    engine = engine_of(nodes)
    for index in (1, 2):
        asked = replace(order(index, weights + 0.01 * index), sketch=True)
        ours, theirs = engine.run_round(asked), simulated.run_round(asked)
    assert ours.report.probe is not None
    assert theirs.report.probe is not None
    assert np.isfinite(ours.report.probe.divergence).all()
    np.testing.assert_array_equal(ours.report.probe.divergence, theirs.report.probe.divergence)
    sketched = CLIENTS * 4 * sketch_size(weights.numel())
    assert ours.sent_bytes == 2 * CLIENTS * 4 * weights.numel() + sketched
    assert sizes == [None, sketch_size(weights.numel())]


def test_a_device_that_sends_only_sketches(tmp_path: Path) -> None:
    """It refuses rounds that ask for a whole gradient."""
    nodes = grid(tmp_path)
    careful = replace(client(0), settings=ProbeSettings(only_sketches=True))
    nodes.apps[1] = client_app(lambda _: careful, tmp_path / "careful")
    engine = engine_of(nodes)
    weights = engine.first_weights()
    for asked in (order(1, weights, probe=False), replace(order(2, weights), sketch=True)):
        assert engine.run_round(asked).report.present.all()
    outcome = engine.run_round(order(3, weights))
    assert outcome.report.present.tolist() == [False, True, True, True, True]


@pytest.mark.parametrize(
    "path",
    [
        None,
        StepPath(torch.zeros(3), 1.0),
        StepPath(torch.full((sketch_size(4810),), math.nan), 1.0),
        StepPath(torch.zeros(sketch_size(4810)), -1.0),
        StepPath(torch.zeros(sketch_size(4810)), math.inf),
    ],
)
def test_a_path_that_cannot_be_used_makes_its_sender_absent(
    tmp_path: Path, path: StepPath | None
) -> None:
    nodes = grid(tmp_path)
    nodes.apps[1] = changed(
        nodes.apps[1], lambda content: with_values(content, reply={"path": path})
    )
    engine = engine_of(nodes)
    outcome = engine.run_round(order(1, engine.first_weights(), probe=False, path=True))
    assert outcome.report.present.tolist() == [False, True, True, True, True]
    assert len(outcome.paths) == CLIENTS - 1


def test_names_speeds_and_charges(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    engine = FlowerEngine(nodes, digits("perceptron"), CLIENTS, timeouts=QUICK)
    fleet = engine.enroll()
    assert fleet.name == tuple(f"device {node}" for node in nodes.apps)
    assert (fleet.samples_per_second > 0).all()
    asked = order(1, engine.first_weights())
    outcome = engine.run_round(asked)
    report = outcome.report
    np.testing.assert_array_equal(report.samples, fleet.samples)
    assert (report.step_seconds > 0).all()
    assert (report.comm_seconds >= 0).all()
    assert outcome.seconds >= (asked.plan.local_steps * report.step_seconds).max()
    assert 0 < outcome.samples <= engine.most_samples(asked)
    assert outcome.sent_bytes == 2 * CLIENTS * 4 * engine.first_weights().numel()


def shorter(content: RecordDict) -> RecordDict:
    return with_values(content, reply={"weights": torch.zeros(3)})


def doubles(content: RecordDict) -> RecordDict:
    weights = from_content(content, TrainReply).reply.weights
    return with_values(content, reply={"weights": weights.double()})


def no_bytes(content: RecordDict) -> RecordDict:
    record: Any = content["part-000000"]
    record["bytes"] = b"no array at all"
    return content


def cut_off(content: RecordDict) -> RecordDict:
    record: Any = content["part-000000"]
    record["bytes"] = record["bytes"][:-1]
    return content


def nested(_: RecordDict) -> RecordDict:
    """Return JSON that is nested too deeply to be read."""
    data = len(DEEP).to_bytes(8, "little") + DEEP
    return RecordDict({"part-000000": ConfigRecord({"bytes": data})})


DEEP = b"[" * 10**6


def raises(*_: object) -> RecordDict:
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    "change",
    [
        no_bytes,
        raises,
        cut_off,
        nested,
        lambda _: RecordDict(),
        lambda _: pack(b"{}"),
        lambda _: to_content(Introduction("n", samples=1, samples_per_second=1.0, seconds=1.0)),
        lambda content: pack(unpack(content).replace(b"torch", b"numpy")),
        lambda content: RecordDict({"arrays": content["part-000000"], "b": ArrayRecord()}),
    ],
)
def test_replies_that_cannot_be_used_make_their_sender_absent(
    tmp_path: Path, change: Callable[[RecordDict], RecordDict]
) -> None:
    nodes = grid(tmp_path)
    nodes.apps[3] = changed(nodes.apps[3], change)
    engine = engine_of(nodes)
    asked = order(1, engine.first_weights())
    outcome = engine.run_round(asked)
    assert outcome.report.present.tolist() == [True, True, False, True, True]
    assert len(outcome.updates) == 4
    assert outcome.samples > asked.plan.local_steps * int(asked.plan.batch_sizes[:2].sum())
    nodes.apps[3] = app(2, tmp_path)  # it is still there, and may do better
    assert engine.run_round(order(2, engine.first_weights())).report.present.all()


@pytest.mark.parametrize("change", [shorter, doubles])
def test_a_model_of_another_shape_leaves_its_sender_out_for_a_while(
    tmp_path: Path, change: Callable[[RecordDict], RecordDict]
) -> None:
    nodes = grid(tmp_path)
    nodes.apps[3] = changed(nodes.apps[3], change)
    engine = engine_of(nodes)
    weights = engine.first_weights()
    for index in (1, 2, 3):  # in the last two, nobody asks it
        outcome = engine.run_round(order(index, weights))
        assert outcome.report.present.tolist() == [True, True, False, True, True]
        nodes.apps[3] = app(2, tmp_path)
    assert engine.run_round(order(4, weights)).report.present.all()


@pytest.mark.parametrize(
    "claims",
    [
        {"reply": {"samples": -5}},
        {"reply": {"samples": 0}},
        {"reply": {"samples": 10**15}},
        {"reply": {"samples": "many"}},
        {"reply": {"samples": 2.5}},
        {"reply": {"samples": True}},
        {"computed": -1},
        {"step_seconds": -1.0},
        {"step_seconds": 10**400},
        {"step_seconds": math.nan},
        {"seconds": math.inf},
        {"computed": 0.5},
    ],
)
def test_claims_that_cannot_be_true_make_their_sender_absent(
    tmp_path: Path, claims: dict[str, Any]
) -> None:
    nodes = grid(tmp_path)
    nodes.apps[1] = changed(nodes.apps[1], lambda content: with_values(content, **claims))
    outcome = engine_of(nodes).run_round(order(1, engine_of(nodes).first_weights()))
    assert outcome.report.present.tolist() == [False, True, True, True, True]
    assert np.isnan(outcome.report.step_seconds[0])
    assert np.isnan(outcome.report.samples[0])


def test_weights_that_are_not_finite_reach_the_loop_but_no_estimate(tmp_path: Path) -> None:
    def poison(content: RecordDict) -> RecordDict:
        bad = torch.full_like(from_content(content, TrainReply).reply.weights, math.nan)
        return with_values(content, reply={"weights": bad, "gradient": bad})

    nodes = grid(tmp_path)
    nodes.apps[2] = changed(nodes.apps[2], poison)
    engine = engine_of(nodes)
    weights = engine.first_weights()
    engine.run_round(order(1, weights))
    outcome = engine.run_round(order(2, weights + 0.01))
    assert len(outcome.updates) == CLIENTS
    assert outcome.report.probe is not None
    known = np.isfinite(outcome.report.probe.divergence)
    assert known.tolist() == [True, False, True, True, True]


def test_a_device_that_hangs_is_absent_and_not_asked_again(tmp_path: Path) -> None:
    def hang(*_: object) -> Message:
        raise TimeoutError

    nodes = grid(tmp_path)
    engine = engine_of(nodes)
    good, nodes.apps[4] = nodes.apps[4], hang
    weights = engine.first_weights()
    first = engine.run_round(order(1, weights))
    assert first.report.present.tolist() == [True, True, True, False, True]
    assert first.seconds >= QUICK.min_round_seconds
    second = engine.run_round(order(2, weights))
    assert second.report.present.tolist() == [True, True, True, False, True]
    assert second.samples < first.samples + 1  # it was not even asked
    nodes.apps[4] = good
    engine.roster._introductions_due.clear()  # as if the time for its introduction were over
    engine.run_round(order(3, weights))
    assert engine.run_round(order(4, weights)).report.present.all()


def test_a_round_that_is_repeated_has_the_same_result(tmp_path: Path) -> None:
    """A server repeats a round if it was killed before it had saved the replies."""
    nodes = grid(tmp_path)
    engine = engine_of(nodes, names_file=tmp_path / "nodes.json")
    weights = engine.first_weights()
    engine.run_round(order(1, weights))
    once = engine.run_round(order(2, weights + 0.01))
    resumed = engine_of(nodes, names_file=tmp_path / "nodes.json")
    again = resumed.run_round(order(2, weights + 0.01))
    for first, second in zip(once.updates, again.updates, strict=True):
        assert torch.equal(first, second)
    assert once.report.probe is not None
    assert again.report.probe is not None
    np.testing.assert_array_equal(once.report.probe.smoothness, again.report.probe.smoothness)
    another = engine_of(nodes)  # the devices use no state of the first training
    assert another.run_round(order(2, weights + 0.01)).report.probe is not None


def test_too_few_nodes_end_the_training(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    engine = engine_of(nodes, min_nodes=4)
    for node in (1, 2):
        del nodes.apps[node]
    with pytest.raises(TooFewNodes, match=r"Waiting for 4 nodes: 3 connected .*, 1 missing"):
        engine.run_round(order(1, engine.first_weights()))


def test_a_round_says_whose_replies_are_missing(tmp_path: Path) -> None:
    waits: list[WaitStatus] = []
    engine = engine_of(grid(tmp_path), on_wait=waits.append)
    weights = engine.first_weights()
    waits.clear()
    engine._show_replies(7, {0: 1, 1: 2, 2: 3}, [2])
    assert str(waits[0]) == (
        "Waiting for 3 nodes in round 7: 2 replied (device 1, device 3), 1 missing (device 2)"
    )
    waits.clear()
    engine.run_round(order(1, weights))
    assert all(status.round_index == 1 for status in waits)


def test_the_speeds_of_missing_nodes_are_guessed(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    for node_id in (4, 5):
        del nodes.apps[node_id]
    engine = FlowerEngine(nodes, digits("perceptron"), CLIENTS, timeouts=QUICK)
    fleet = engine.enroll()
    assert fleet.name is not None
    assert fleet.name[3:] == ("unconnected 4", "unconnected 5")
    assert fleet.samples_per_second[4] == np.median(fleet.samples_per_second[:3])
    outcome = engine.run_round(order(1, engine.first_weights()))
    assert outcome.report.present.tolist() == [True, True, True, False, False]


def fails(message: Message, context: Context, good: App) -> Message:
    """Stand for a device on which the user's code fails in every round."""
    if message.metadata.message_type == "train":
        raise UserCodeError("UserCodeError: a local step failed: MemoryError")
    return good(message, context)


def test_a_training_ends_if_the_users_code_fails_on_every_node(tmp_path: Path) -> None:
    """Otherwise it would spend all its budget without learning anything."""
    nodes = grid(tmp_path)
    for node, good in list(nodes.apps.items())[1:]:
        nodes.apps[node] = partial(fails, good=good)
    engine = engine_of(nodes)
    weights = engine.first_weights()
    for index in (1, 2, 3, 4):  # one node is well
        assert engine.run_round(order(index, weights)).report.present.sum() == 1
    nodes.apps[1] = partial(fails, good=nodes.apps[1])
    for index in (5, 6):
        assert not engine.run_round(order(index, weights)).report.present.any()
    with pytest.raises(UserCodeError, match=r"on every node in 3 rounds in a row, in round 7 with"):
        engine.run_round(order(7, weights))


def test_a_node_with_another_model_is_refused(tmp_path: Path) -> None:
    """Its vector of weights is as long as the server's, but its layers are others."""
    nodes = grid(tmp_path)
    task = digits("perceptron")
    other = replace(task, model=lambda: nn.Sequential(task.model(), nn.Identity()))
    nodes.apps[1] = client_app(lambda _: replace(client(0), model=FlatModel(other, 0)), tmp_path)
    engine = FlowerEngine(nodes, task, CLIENTS, timeouts=QUICK, min_nodes=CLIENTS)
    with pytest.raises(TooFewNodes, match="device 1 trains another model: its layers are not"):
        engine.enroll()
