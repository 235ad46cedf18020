"""Nodes in other processes, with TLS and keys."""

import socket
import ssl
from pathlib import Path

import httpx
import pytest
import torch

from dynamite_fl.flower.keys import make_keys
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.engine import Engine
from tests.flower.fleet import order
from tests.flower.machines import Machines
from tests.processes import HANG_SECONDS, wait_until
from tests.trainings import training

NODES = 2
FAULT_SECONDS = 20.0  # that rounds may take in tests in which a node does not reply


def play_five(engine: Engine) -> torch.Tensor:
    """Return the weights after five rounds that are the same for every engine."""
    weights = engine.first_weights()
    for index in range(1, 6):
        outcome = engine.run_round(order(index, weights, clients=NODES))
        assert outcome.report.present.all()
        weights = average(outcome.updates, outcome.report.samples)
    return weights


def send_garbage(machines: Machines) -> None:
    """Send bytes to the port that are no request, with and without TLS, and forbidden requests."""
    address = ("127.0.0.1", machines.link.port)
    with socket.create_connection(address, timeout=HANG_SECONDS) as plain:
        plain.sendall(b"\x00garbage" * 1000)
    trusted = ssl.create_default_context(cafile=machines.keys / "ca.pem")
    with (
        socket.create_connection(address, timeout=HANG_SECONDS) as plain,
        trusted.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
    ):
        encrypted.sendall(b"POST /v1/fleet/pull-messages HTTP/1.1\r\nHost: x\r\n\r\n\xff\xfe")
    url = f"https://127.0.0.1:{machines.link.port}"
    for path in ("fleet/pull-messages", "control/start-run", "runtime/acquire-task"):
        answer = httpx.post(
            f"{url}/v1/{path}", content=b"\xff" * 99, verify=trusted, timeout=HANG_SECONDS
        )
        assert 400 <= answer.status_code < 500


@pytest.mark.slow
def test_nodes_compute_what_simulated_devices_compute(tmp_path: Path) -> None:
    """This is one test with the two below it, because starting nodes takes seconds."""
    with Machines(tmp_path, NODES) as machines:
        engine = machines.engine()
        assert engine.roster.names == ["device 1", "device 2"]
        simulated = training(model="perceptron", devices={"jitter": 0.0}).engine
        weights = play_five(engine)
        assert torch.equal(weights, play_five(simulated))

        # Garbage on the port harms nobody.
        send_garbage(machines)
        assert engine.run_round(order(6, weights, clients=NODES)).report.present.all()

        # A node that is asked to leave is gone at once, and nobody waits for it.
        machines.running[1].terminate()
        assert machines.running[1].wait(HANG_SECONDS) == 0
        outcome = engine.run_round(order(7, weights, clients=NODES))
        assert outcome.report.present.tolist() == [True, False]
        assert outcome.seconds < HANG_SECONDS

        # The other node leaves when the training ends.
        engine.roster.say_goodbye("deadline")
        assert machines.running[0].wait(HANG_SECONDS) == 0
        assert "The training has ended, by its deadline" in machines.log.read_text()


@pytest.mark.faults
@pytest.mark.slow
def test_a_node_that_hangs_is_left_out_until_it_answers(tmp_path: Path) -> None:
    with Machines(tmp_path, NODES) as machines:
        engine = machines.engine(round_seconds=FAULT_SECONDS)
        weights = engine.first_weights()
        with machines.fault(1, "hang"):
            outcome = engine.run_round(order(1, weights, clients=NODES))
            assert outcome.report.present.tolist() == [True, False]
            assert outcome.seconds >= FAULT_SECONDS
            outcome = engine.run_round(order(2, weights, clients=NODES))
            assert outcome.report.present.tolist() == [True, False]
            assert outcome.seconds < FAULT_SECONDS
        machines.wait_for_all(engine)
        assert engine.run_round(order(3, weights, clients=NODES)).report.present.all()


@pytest.mark.faults
@pytest.mark.slow
def test_a_node_that_is_killed_in_a_round_continues_with_its_state(tmp_path: Path) -> None:
    with Machines(tmp_path, NODES) as machines:
        engine = machines.engine(round_seconds=FAULT_SECONDS)
        weights = engine.first_weights()
        assert engine.run_round(order(1, weights, clients=NODES)).report.present.all()
        with machines.fault(0, "die"):
            outcome = engine.run_round(order(2, weights, clients=NODES))
        assert machines.running[0].wait(HANG_SECONDS) == -9
        assert outcome.report.present.tolist() == [False, True]
        machines.start(0)
        machines.wait_for_all(engine)  # it is refused as long as its old connection seems alive
        outcome = engine.run_round(order(3, weights, clients=NODES))
        assert outcome.report.present.all()
        assert outcome.report.probe is not None
        assert outcome.report.probe.smoothness[0] > 0  # measured with its memory of round 1


@pytest.mark.faults
@pytest.mark.slow
def test_nodes_with_wrong_keys_are_refused_and_keep_trying(tmp_path: Path) -> None:
    with Machines(tmp_path, nodes=1) as machines:
        engine = machines.engine()
        strange_keys = tmp_path / "strange-keys"
        make_keys(strange_keys, ["127.0.0.1"], ["device 2"])
        (machines.keys / "unknown").mkdir()
        for name, source in (
            ("ca.pem", machines.keys),
            ("node.key", strange_keys / "device 2"),
        ):
            (machines.keys / "unknown" / name).write_bytes((source / name).read_bytes())
        unknown_node = machines.start(1, keys="unknown")
        (machines.keys / "stranger").symlink_to(strange_keys / "device 2")
        wrong_server = machines.start(2, keys="stranger")

        def are_refused() -> bool:
            log = machines.log.read_text().lower()
            return (
                "refused: the server does not know the key of this node" in log
                and "certificate verify failed" in log
            )

        wait_until(are_refused, machines.log.read_text)
        engine.roster.update()
        assert list(engine.roster.connected) == [0]
        assert engine.run_round(order(1, engine.first_weights(), clients=1)).report.present.all()
        for process in (unknown_node, wrong_server):
            assert process.poll() is None
