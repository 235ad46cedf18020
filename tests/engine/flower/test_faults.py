"""Faults that take long to show: run by ``make test-faults``."""

import time
from pathlib import Path

import pytest

from dynamite_fl.engine.flower.engine import FlowerEngine
from dynamite_fl.engine.flower.keys import make_keys
from tests.engine.flower.fleet import order
from tests.engine.flower.machines import Machines

pytestmark = pytest.mark.faults


def wait_for(engine: FlowerEngine, count: int, seconds: float) -> float:
    """How long it took until so many nodes were here."""
    began = time.monotonic()
    while len(engine.roster.guests) < count:
        assert time.monotonic() - began < seconds, engine.roster.guests
        engine.roster.look()
        time.sleep(0.05)
    return time.monotonic() - began


def test_a_node_killed_in_mid_round_and_back(tmp_path: Path) -> None:
    with Machines(tmp_path, nodes=2) as machines:
        engine = machines.engine(factor=0.0, least_seconds=5.0)
        weights = engine.first_weights()
        assert engine.play(order(1, weights, clients=2)).report.present.all()
        with machines.fault(0, "die"):
            outcome = engine.play(order(2, weights, clients=2))
        assert machines.running[0].wait(10) == -9
        assert outcome.report.present.tolist() == [False, True]
        assert outcome.seconds < 7.0
        machines.start(0)
        wait_for(engine, 2, 60.0)  # it is refused for as long as it seems to be there
        outcome = engine.play(order(3, weights, clients=2))
        assert outcome.report.present.all()
        assert outcome.report.probe is not None
        assert outcome.report.probe.smoothness[0] > 0  # it has its memory of round 1


def test_wrong_keys_are_refused(tmp_path: Path) -> None:
    with Machines(tmp_path, nodes=1) as machines:
        engine = machines.engine()
        other = tmp_path / "others"
        make_keys(other, ["127.0.0.1"], ["device 2"])
        (tmp_path / "keys" / "mixed").mkdir()
        for name, source in (("ca.pem", tmp_path / "keys"), ("node.key", other / "device 2")):
            (tmp_path / "keys" / "mixed" / name).write_bytes((source / name).read_bytes())
        unknown = machines.start(1, keys="mixed")
        (tmp_path / "keys" / "stranger").symlink_to(other / "device 2")
        stranger = machines.start(2, keys="stranger")
        said, until = "", time.monotonic() + 180
        while "401" not in said or "certificate verify failed" not in said.lower():
            assert time.monotonic() < until, said
            time.sleep(0.1)
            said = (tmp_path / "nodes.log").read_text()
        engine.roster.look()
        assert list(engine.roster.guests) == [0]
        assert engine.play(order(1, engine.first_weights(), clients=1)).report.present.all()
        for process in (unknown, stranger):
            assert process.poll() is None  # it goes on trying, in case the server learns its key
        assert "refused: no node that this server knows" in said
