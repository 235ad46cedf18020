"""Answers beside each other: whoever lies is named and left out, and nobody else is affected."""

from pathlib import Path

import pytest

from dynamite_fl import Limits
from dynamite_fl.flower.api import train
from dynamite_fl.flower.timeouts import Timeouts
from tests.flower.fleet import CLIENTS, grid, order
from tests.flower.lies import INTRODUCTIONS, LIES, lying
from tests.flower.test_engine import engine_of
from tests.trainings import RATE, digits


@pytest.mark.parametrize("name", LIES)
def test_a_lie_leaves_its_node_out_and_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    nodes = grid(tmp_path)
    nodes.apps[2] = lying(nodes.apps[2], name, rounds=(3,))
    engine = engine_of(nodes)
    weights = engine.first_weights()
    present = [
        engine.run_round(order(k, weights, probe=False, path=True)).report.present.tolist()
        for k in (1, 2, 3, 4)
    ]
    everybody, without = [True] * CLIENTS, [True, False, *[True] * (CLIENTS - 2)]
    assert present == [everybody, everybody, without, without]
    assert "device 2 is implausible in round 3 and left out of the next 2 rounds: " in caplog.text
    assert caplog.text.count("is implausible") == 1


@pytest.mark.parametrize("name", INTRODUCTIONS)
def test_an_introduction_that_cannot_be_true(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    nodes = grid(tmp_path)
    nodes.apps[2] = lying(nodes.apps[2], name)
    engine = engine_of(nodes)
    assert engine.roster.names == [f"device {number}" for number in (1, 3, 4, 5)]
    assert "Node 2 is refused: " in caplog.text


def test_a_liar_is_excluded_after_its_third_lie(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    nodes.apps[2] = lying(nodes.apps[2], "an update times -50")
    engine = engine_of(nodes, names_file=tmp_path / "nodes.json")
    weights = engine.first_weights()
    for index in range(1, 10):
        outcome = engine.run_round(order(index, weights, probe=False, path=True))
        assert outcome.report.present.tolist() == [True, False, True, True, True]
    assert list(engine.roster.conduct.excluded) == ["device 2"]
    lines = (tmp_path / "excluded.txt").read_text().splitlines()
    assert lines[1].startswith("device 2\tin round 9: its model moved by ")
    assert engine.roster.connected_names == ["device 1", "device 3", "device 4", "device 5"]


def test_a_training_with_a_liar_learns(tmp_path: Path) -> None:
    """It reaches what the honest nodes reach without the liar."""
    accuracies = []
    for is_there in (True, False):
        nodes = grid(tmp_path / str(is_there))
        nodes.apps = {node: nodes.apps[node] for node in (1, 2, 3)}
        nodes.apps[2] = lying(nodes.apps[2], "an update times 1000")
        if not is_there:
            del nodes.apps[2]
        result = train(
            nodes,
            digits("perceptron"),
            Limits(rounds=10, deadline=600, budget=60, cost_per_sample=0, cost_per_round=0.5),
            "fedavg",
            clients=3 if is_there else 2,
            learning_rate=RATE,
            timeouts=Timeouts(join_seconds=1.0),
        )
        accuracies.append(result.metrics["accuracy"])
    assert accuracies[0] >= accuracies[1] - 0.02


def test_with_privacy_nobody_is_judged_by_the_models_of_others(tmp_path: Path) -> None:
    """Whether an update is used must not depend on the data of others, even if it is a lie."""
    nodes = grid(tmp_path)
    nodes.apps[2] = lying(nodes.apps[2], "an update times 1000")
    engine = engine_of(nodes, is_private=True)
    outcome = engine.run_round(order(1, engine.first_weights(), probe=False, path=True))
    assert outcome.report.present.all()
    assert len(outcome.updates) == CLIENTS
