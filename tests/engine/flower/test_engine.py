"""The engine over a Grid that needs no network."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict

from dynamite_fl.client.client import ProbeSettings, Reply
from dynamite_fl.client.path import Path as ClientPath
from dynamite_fl.client.sketch import sketch_size
from dynamite_fl.engine.average import average
from dynamite_fl.engine.engine import Engine
from dynamite_fl.engine.flower.app import client_app
from dynamite_fl.engine.flower.engine import FlowerEngine, Patience, TooFewNodes
from dynamite_fl.engine.flower.message import Introduction, Work, from_content, to_content
from dynamite_fl.engine.flower.parcel import unwrapped, wrapped
from dynamite_fl.reports import RoundReport
from tests.engine.flower.fleet import CLIENTS, app, client, grid, order
from tests.engine.flower.local import App, LocalGrid
from tests.engine.trainings import RATE, digits, training

QUICK = Patience(factor=0.0, least_seconds=0.05, join_seconds=0.05)


def engine_of(nodes: LocalGrid, **settings: Any) -> FlowerEngine:
    settings = {"patience": QUICK, **settings}
    engine = FlowerEngine(nodes, digits("perceptron"), CLIENTS, RATE, **settings)
    engine.enroll()
    return engine


def play_five(engine: Engine) -> tuple[torch.Tensor, list[RoundReport]]:
    """The weights after five rounds that are the same for every engine, and their reports."""
    weights, reports = engine.first_weights(), []
    for index in range(1, 6):
        outcome = engine.play(order(index, weights))
        assert outcome.report.present.all()
        weights = average(outcome.updates, outcome.report.samples)
        reports.append(outcome.report)
    return weights, reports


def changed(good: App, change: Callable[[RecordDict], RecordDict]) -> App:
    """A device that plays well, but changes what it sends."""

    def play(message: Message, context: Context) -> Message:
        sent = good(message, context)
        if message.metadata.message_type != "train":
            return sent
        return Message(change(sent.content), reply_to=message)

    return play


def other(content: RecordDict, *, reply: dict[str, Any] = {}, **work: Any) -> RecordDict:  # noqa: B006
    """What was sent, with other values in its reply and its work."""
    return to_content(
        reply=replace(from_content(content, "reply", Reply), **reply),
        work=replace(from_content(content, "work", Work), **work),
    )


def test_equal_weights_and_figures(tmp_path: Path) -> None:
    ours, our_reports = play_five(engine_of(grid(tmp_path)))
    simulated = training(model="perceptron", devices={"jitter": 0.0}).engine
    theirs, their_reports = play_five(simulated)
    assert torch.equal(ours, theirs)
    for our, their in zip(our_reports, their_reports, strict=True):
        assert our.probe is not None
        assert their.probe is not None
        for name, column in vars(their.probe).items():
            np.testing.assert_array_equal(getattr(our.probe, name), column)


def test_equal_paths(tmp_path: Path) -> None:
    simulated = training(model="perceptron", devices={"jitter": 0.0}).engine
    weights = simulated.first_weights()
    asked = order(1, weights, probe=False, path=True)
    ours = engine_of(grid(tmp_path)).play(asked)
    assert len(ours.paths) == CLIENTS
    for our, their in zip(ours.paths, simulated.play(asked).paths, strict=True):
        assert torch.equal(our.head, their.head)
        assert our.gradient_variance == their.gradient_variance
    sketched = CLIENTS * 4 * sketch_size(weights.numel())
    assert ours.sent_bytes == 2 * CLIENTS * 4 * weights.numel() + sketched


def test_equal_sketches_of_gradients(tmp_path: Path) -> None:
    """And none but a sketch of each leaves a device."""
    sizes = []

    def seen(content: RecordDict) -> RecordDict:
        gradient = from_content(content, "reply", Reply).gradient
        sizes.append(None if gradient is None else gradient.numel())
        return content

    simulated = training(model="perceptron", devices={"jitter": 0.0}).engine
    weights = simulated.first_weights()
    nodes = grid(tmp_path)
    nodes.apps[1] = changed(nodes.apps[1], seen)
    engine = engine_of(nodes)
    for index in (1, 2):
        asked = replace(order(index, weights + 0.01 * index), sketch=True)
        ours, theirs = engine.play(asked), simulated.play(asked)
    assert ours.report.probe is not None
    assert theirs.report.probe is not None
    assert np.isfinite(ours.report.probe.divergence).all()
    np.testing.assert_array_equal(ours.report.probe.divergence, theirs.report.probe.divergence)
    sketched = CLIENTS * 4 * sketch_size(weights.numel())
    assert ours.sent_bytes == 2 * CLIENTS * 4 * weights.numel() + sketched
    assert sizes == [None, sketch_size(weights.numel())]


def test_a_device_that_gives_only_sketches(tmp_path: Path) -> None:
    """It plays no round that asks for a whole gradient."""
    nodes = grid(tmp_path)
    wary = replace(client(0), settings=ProbeSettings(only_sketches=True))
    nodes.apps[1] = client_app(lambda _: wary, tmp_path / "wary")
    engine = engine_of(nodes)
    weights = engine.first_weights()
    for asked in (order(1, weights, probe=False), replace(order(2, weights), sketch=True)):
        assert engine.play(asked).report.present.all()
    outcome = engine.play(order(3, weights))
    assert outcome.report.present.tolist() == [False, True, True, True, True]


@pytest.mark.parametrize(
    "path",
    [
        None,
        ClientPath(torch.zeros(3), 1.0),
        ClientPath(torch.full((sketch_size(4810),), math.nan), 1.0),
        ClientPath(torch.zeros(sketch_size(4810)), -1.0),
        ClientPath(torch.zeros(sketch_size(4810)), math.inf),
    ],
)
def test_a_path_that_cannot_be_used_makes_its_sender_absent(
    tmp_path: Path, path: ClientPath | None
) -> None:
    nodes = grid(tmp_path)
    nodes.apps[1] = changed(nodes.apps[1], lambda content: other(content, reply={"path": path}))
    engine = engine_of(nodes)
    outcome = engine.play(order(1, engine.first_weights(), probe=False, path=True))
    assert outcome.report.present.tolist() == [False, True, True, True, True]
    assert len(outcome.paths) == CLIENTS - 1


def test_who_it_is_and_what_it_took(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    engine = FlowerEngine(nodes, digits("perceptron"), CLIENTS, RATE, patience=QUICK)
    fleet = engine.enroll()
    assert fleet.name == tuple(f"device {node}" for node in nodes.apps)
    assert (fleet.samples_per_second > 0).all()
    asked = order(1, engine.first_weights())
    outcome = engine.play(asked)
    report = outcome.report
    np.testing.assert_array_equal(report.samples, fleet.samples)
    assert (report.step_seconds > 0).all()
    assert (report.comm_seconds >= 0).all()
    assert outcome.seconds >= (asked.plan.local_steps * report.step_seconds).max()
    assert 0 < outcome.samples <= engine.samples_of(asked)
    assert outcome.sent_bytes == 2 * CLIENTS * 4 * engine.first_weights().numel()


def shorter(content: RecordDict) -> RecordDict:
    return other(content, reply={"weights": torch.zeros(3)})


def doubles(content: RecordDict) -> RecordDict:
    weights = from_content(content, "reply", Reply).weights
    return other(content, reply={"weights": weights.double()})


def no_bytes(content: RecordDict) -> RecordDict:
    record: Any = content["part-000000"]
    record["bytes"] = b"no array at all"
    return content


def cut_off(content: RecordDict) -> RecordDict:
    record: Any = content["part-000000"]
    record["bytes"] = record["bytes"][:-1]
    return content


def nested(_: RecordDict) -> RecordDict:
    """JSON that no stack is deep enough for."""
    data = len(DEEP).to_bytes(8, "little") + DEEP
    return RecordDict({"part-000000": ConfigRecord({"bytes": data})})


DEEP = b"[" * 10**6


def raises(*_: object) -> RecordDict:
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    "change",
    [
        shorter,
        doubles,
        no_bytes,
        raises,
        cut_off,
        nested,
        lambda _: RecordDict(),
        lambda content: wrapped({}, unwrapped(content)[1]),
        lambda content: wrapped(unwrapped(content)[0], {}),
        lambda content: wrapped({}, dict.fromkeys(unwrapped(content)[0], 1.0)),
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
    outcome = engine.play(asked)
    assert outcome.report.present.tolist() == [True, True, False, True, True]
    assert len(outcome.updates) == 4
    assert outcome.samples > asked.plan.local_steps * int(asked.plan.batch_sizes[:2].sum())
    nodes.apps[3] = app(2, tmp_path)  # it is still there, and may do better
    assert engine.play(order(2, engine.first_weights())).report.present.all()


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
def test_lies_make_their_teller_absent(tmp_path: Path, claims: dict[str, Any]) -> None:
    nodes = grid(tmp_path)
    nodes.apps[1] = changed(nodes.apps[1], lambda content: other(content, **claims))
    outcome = engine_of(nodes).play(order(1, engine_of(nodes).first_weights()))
    assert outcome.report.present.tolist() == [False, True, True, True, True]
    assert np.isnan(outcome.report.step_seconds[0])
    assert np.isnan(outcome.report.samples[0])


def test_what_is_not_finite_is_left_to_the_loop_and_spoils_no_estimate(tmp_path: Path) -> None:
    def poison(content: RecordDict) -> RecordDict:
        bad = torch.full_like(from_content(content, "reply", Reply).weights, math.nan)
        return other(content, reply={"weights": bad, "gradient": bad})

    nodes = grid(tmp_path)
    nodes.apps[2] = changed(nodes.apps[2], poison)
    engine = engine_of(nodes)
    weights = engine.first_weights()
    engine.play(order(1, weights))
    outcome = engine.play(order(2, weights + 0.01))
    assert len(outcome.updates) == CLIENTS
    assert outcome.report.probe is not None
    known = np.isfinite(outcome.report.probe.divergence)
    assert known.tolist() == [True, False, True, True, True]


def test_who_hangs_is_absent_and_not_waited_for_again(tmp_path: Path) -> None:
    def hang(*_: object) -> Message:
        raise TimeoutError

    nodes = grid(tmp_path)
    engine = engine_of(nodes)
    good, nodes.apps[4] = nodes.apps[4], hang
    weights = engine.first_weights()
    first = engine.play(order(1, weights))
    assert first.report.present.tolist() == [True, True, True, False, True]
    assert first.seconds >= QUICK.least_seconds
    second = engine.play(order(2, weights))
    assert second.report.present.tolist() == [True, True, True, False, True]
    assert second.samples < first.samples + 1  # it was not even asked
    nodes.apps[4] = good
    engine.roster._asked.clear()  # as when the introduction that it hangs in has expired
    engine.play(order(3, weights))
    assert engine.play(order(4, weights)).report.present.all()


def test_who_comes_back_as_another_node_keeps_its_place(tmp_path: Path) -> None:
    names = tmp_path / "nodes.json"
    nodes = grid(tmp_path)
    engine = engine_of(nodes, names_file=names)
    weights = engine.first_weights()
    engine.play(order(1, weights))
    gone = nodes.apps.pop(2)
    assert engine.play(order(2, weights)).report.present.tolist() == [True, False, True, True, True]
    back = LocalGrid({**nodes.apps, 77: gone}, _configs(nodes) | {77: {"name": "device 2"}})
    nodes.apps, nodes.contexts = back.apps, back.contexts
    engine.play(order(3, weights))
    assert engine.play(order(4, weights)).report.present.all()
    assert engine.roster.guests[1].node == 77
    resumed = engine_of(nodes, names_file=names)
    assert resumed.roster.names == engine.roster.names
    assert resumed.roster.training == engine.roster.training


def _configs(nodes: LocalGrid) -> dict[int, dict[str, Any]]:
    return {node: dict(context.node_config) for node, context in nodes.contexts.items()}


def test_a_round_that_is_played_again_gives_the_same(tmp_path: Path) -> None:
    """As when a server died after the devices had played, but before it had noted it."""
    nodes = grid(tmp_path)
    engine = engine_of(nodes, names_file=tmp_path / "nodes.json")
    weights = engine.first_weights()
    engine.play(order(1, weights))
    once = engine.play(order(2, weights + 0.01))
    resumed = engine_of(nodes, names_file=tmp_path / "nodes.json")
    again = resumed.play(order(2, weights + 0.01))
    for one, other in zip(once.updates, again.updates, strict=True):
        assert torch.equal(one, other)
    assert once.report.probe is not None
    assert again.report.probe is not None
    np.testing.assert_array_equal(once.report.probe.smoothness, again.report.probe.smoothness)
    another = engine_of(nodes)  # another training knows nothing of it
    assert another.play(order(2, weights + 0.01)).report.probe is not None


def test_too_few_end_it_after_a_while(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    engine = engine_of(nodes, patience=replace(QUICK, least_nodes=4))
    for node in (1, 2):
        del nodes.apps[node]
    with pytest.raises(TooFewNodes, match="3 of at least 4 nodes"):
        engine.play(order(1, engine.first_weights()))


def test_names_that_are_taken_and_places_that_are_gone(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    configs = _configs(nodes) | {6: {"name": "device 1"}, 7: {"name": "one more"}}
    extra = {6: app(0, tmp_path / "six"), 7: app(1, tmp_path / "seven")}
    engine = engine_of(LocalGrid({**nodes.apps, **extra}, configs))
    assert sorted(guest.node for guest in engine.roster.guests.values()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "about",
    [
        Introduction("", 5, 1.0, 0.0),
        Introduction("x\n", 5, 1.0, 0.0),
        Introduction("x", -5, 1.0, 0.0),
        Introduction("x", 10**12, 1.0, 0.0),
        Introduction("x", 5, math.nan, 0.0),
    ],
)
def test_introductions_that_cannot_be_true(tmp_path: Path, about: Introduction) -> None:
    def introduce(message: Message, _: Context) -> Message:
        return Message(to_content(introduction=about), reply_to=message)

    nodes = grid(tmp_path)
    nodes.apps[5] = introduce
    assert sorted(engine_of(nodes).roster.guests) == [0, 1, 2, 3]
