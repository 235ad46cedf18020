"""The engine over a SuperLink with TLS and keys, to nodes in other processes."""

import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest
import torch

from dynamite_fl.engine.average import average
from dynamite_fl.engine.engine import Engine
from dynamite_fl.engine.flower.keys import make_keys
from dynamite_fl.engine.flower.link import Link
from dynamite_fl.engine.simulated import SimulatedEngine
from tests.engine.flower.fleet import order
from tests.engine.flower.machines import Machines
from tests.engine.trainings import training


def play_five(engine: Engine) -> torch.Tensor:
    weights = engine.first_weights()
    for index in range(1, 6):
        outcome = engine.play(order(index, weights, clients=3))
        assert outcome.report.present.all()
        weights = average(outcome.updates, outcome.report.samples)
    return weights


def test_three_machines(tmp_path: Path) -> None:
    """In one test, as it takes long to start them."""
    with Machines(tmp_path, nodes=3) as machines:
        engine = machines.engine(least_seconds=20.0)
        assert engine.roster.names == ["device 1", "device 2", "device 3"]

        # Equal weights after five rounds.
        simulated = training(model="perceptron", devices={"jitter": 0.0}).engine
        assert isinstance(simulated, SimulatedEngine)
        weights = play_five(engine)
        assert torch.equal(weights, play_five(simulated))

        # Garbage on the port, with and without TLS, and what nobody may ask.
        address = ("127.0.0.1", machines.link.port)
        with socket.create_connection(address, timeout=5) as plain:
            plain.sendall(b"\x00garbage" * 1000)
        trusted = ssl.create_default_context(cafile=machines.keys / "ca.pem")
        with (
            socket.create_connection(address, timeout=5) as plain,
            trusted.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
        ):
            wrapped.sendall(b"POST /v1/fleet/pull-messages HTTP/1.1\r\nHost: x\r\n\r\n\xff\xfe")
        url = f"https://127.0.0.1:{machines.link.port}"
        for path in ("fleet/pull-messages", "control/start-run", "runtime/acquire-task"):
            answer = httpx.post(f"{url}/v1/{path}", content=b"\xff" * 99, verify=trusted)
            assert 400 <= answer.status_code < 500

        # A client that hangs is absent, then left out; free again, it is back.
        hasty = machines.engine(factor=0.0, least_seconds=3.0)
        with machines.fault(1, "hang"):
            outcome = hasty.play(order(6, weights, clients=3))
            assert outcome.report.present.tolist() == [True, False, True]
            assert 3.0 <= outcome.seconds < 6.0
            outcome = hasty.play(order(7, weights, clients=3))
            assert outcome.report.present.tolist() == [True, False, True]
            assert outcome.seconds < 3.0
        deadline = time.monotonic() + 30
        while len(hasty.roster.guests) < 3:
            assert time.monotonic() < deadline
            hasty.roster.look()
            time.sleep(0.05)
        assert hasty.play(order(8, weights, clients=3)).report.present.all()

        # One that is asked to leave is gone at once.
        machines.running[2].terminate()
        assert machines.running[2].wait(20) == 0
        outcome = hasty.play(order(9, weights, clients=3))
        assert outcome.report.present.tolist() == [True, True, False]
        assert outcome.seconds < 3.0 + 20.0


def test_a_link_without_keys_serves_this_machine_only() -> None:
    with pytest.raises(ValueError, match=r"only this machine is served, not 0\.0\.0\.0"):
        Link("0.0.0.0", 0)  # noqa: S104


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"cannot listen at 127.0.0.1, port {port}"):
            Link("127.0.0.1", port)


def test_keys_are_made_once_and_are_for_their_owner(tmp_path: Path) -> None:
    assert make_keys(tmp_path, ["example.org"], ["a", "b"]) == ["a", "b"]
    before = (tmp_path / "a" / "node.key").read_bytes()
    assert make_keys(tmp_path, [], ["b", "c"]) == ["c"]
    assert (tmp_path / "a" / "node.key").read_bytes() == before
    for key in tmp_path.rglob("*.key"):
        assert key.stat().st_mode & 0o077 == 0
    for name in ("server", "../x", "a/b", "a\nb"):
        with pytest.raises(ValueError, match="cannot be a node's name"):
            make_keys(tmp_path, [], [name])
