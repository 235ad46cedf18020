"""A device whose samples arrive while it trains, and its restarts."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.app import Message, RecordDict

from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.local_data.device_client import device_client
from dynamite_fl.client.messages import Order, Reply
from dynamite_fl.errors import InvalidInput
from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.flower.engine import FlowerEngine
from dynamite_fl.flower.messages import (
    TRAIN,
    Introduction,
    TrainOrder,
    TrainReply,
    from_content,
    to_content,
)
from dynamite_fl.flower.superlink import SuperLink
from dynamite_fl.flower.timeouts import Timeouts
from dynamite_fl.stream.buffer import Storage
from tests.flower.fleet import order
from tests.flower.local_grid import App, LocalGrid
from tests.flower.machines import ENVIRONMENT
from tests.processes import HANG_SECONDS
from tests.trainings import digits


def arrive(folder: Path, name: str, first: int, count: int = 40) -> None:
    task = digits()
    inputs, targets = task.train.batch(np.arange(first, first + count))
    np.savez(folder / name, inputs=inputs.numpy(), targets=targets.numpy())


def started(folder: Path, size: int = 60) -> App:
    """A device as a process would start it, from the state in its folder."""
    storage = Storage("reservoir", size)
    app: App = client_app(
        lambda _: device_client(
            FlatModel(digits(), seed=0), incoming=folder / "samples", storage=storage
        ),
        folder / "state",
    )
    return app


def play(app: App, round_index: int, training: str = "monday") -> Reply:
    weights = torch.zeros(650)
    asked = Order(0, round_index, weights, 3, 16, 0.1, probe=True, remember=True)
    content = to_content(TrainOrder(training, "nonce", asked))
    grid = LocalGrid({1: app}, {1: {"name": "camera"}})
    ids = grid.push_messages([Message(content, dst_node_id=1, message_type=TRAIN)])
    (message,) = grid.pull_messages(ids)
    if message.has_error():
        raise InvalidInput(message.error.reason)
    return from_content(message.content, TrainReply).reply


JOB = """
devices = "testbed5"

[task]
model = "softmax"
dataset = "digits"

[partition]
kind = "dirichlet"
alpha = 1

[stream]
arrivals = "smooth"
order = "iid"
initial = 1
size = 1
every = 1
buffer = "reservoir"
buffer_size = 60

[limits]
rounds = 5
deadline = 1000
budget = 1000
cost_per_sample = 0.001
cost_per_round = 1

[controller]
name = "fedavg"

[training]
learning_rate = 0.1
"""


def node_process(folder: Path, port: int) -> subprocess.Popen[bytes]:
    (folder / "job.toml").write_text(JOB)
    code = "from dynamite_fl._cli.main import main; main()"
    options = ["--server", f"127.0.0.1:{port}", "--name", "camera"]
    options += ["--incoming", str(folder / "samples"), "--state", str(folder / "state")]
    return subprocess.Popen(
        [sys.executable, "-c", code, "node", str(folder / "job.toml"), *options],
        env={**ENVIRONMENT, "FLWR_HOME": str(folder / "flwr")},
    )


@pytest.mark.faults
@pytest.mark.slow
def test_a_node_killed_in_training_goes_on_with_its_samples(folder: Path) -> None:
    """The same with ``dynamite node --incoming``, in a process that is really killed."""
    arrive(folder / "samples", "1.npz", 0)
    with SuperLink("127.0.0.1", 0) as link:
        process = node_process(folder, link.port)
        try:
            timeouts = Timeouts(join_seconds=HANG_SECONDS, min_round_seconds=20.0)
            engine = FlowerEngine(
                link.grid, digits(), 1, registered=link.registered, timeouts=timeouts
            )
            engine.enroll()
            weights = engine.first_weights()
            assert engine.run_round(order(1, weights, clients=1)).report.samples.tolist() == [40]
            process.send_signal(signal.SIGKILL)
            assert process.wait(HANG_SECONDS) == -signal.SIGKILL
            (folder / "samples" / "1.npz").unlink()  # the samples are in the node's state folder
            arrive(folder / "samples", "2.npz", 40)
            process = node_process(folder, link.port)
            report, until = None, time.monotonic() + HANG_SECONDS
            while report is None or not report.present.all():
                assert time.monotonic() < until
                engine.roster.update()
                report = engine.run_round(order(2, weights, clients=1)).report
            assert report.samples.tolist() == [80]
            assert report.probe is not None
            assert report.probe.smoothness[0] > 0  # it has its memory of round 1
        finally:
            process.kill()
            process.wait(HANG_SECONDS)


def assert_same(one: Reply, other: Reply) -> None:
    assert torch.equal(one.weights, other.weights)
    assert one.samples == other.samples
    assert one.figures == other.figures


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "samples").mkdir()
    return tmp_path


def test_a_restarted_device_goes_on_with_its_samples(folder: Path) -> None:
    """Killed after round 2, it replies in round 3 as one does that was never killed."""
    arrive(folder / "samples", "1.npz", 0)
    app = started(folder)
    assert play(app, 1).samples == 40
    arrive(folder / "samples", "2.npz", 40)
    assert play(app, 2).samples == 80
    arrive(folder / "samples", "3.npz", 80, count=10)
    restarted = play(started(folder), 3)
    (folder / "samples" / "1.npz").unlink()  # it has been read, and is needed no more
    assert restarted.samples == 90
    assert_same(play(app, 3), restarted)  # from the same state files


def test_a_round_asked_for_again_gives_the_same_reply(folder: Path) -> None:
    """Also after a restart, and also if no sample arrived in that round."""
    arrive(folder / "samples", "1.npz", 0)
    app = started(folder)
    play(app, 1)
    second = play(app, 2)  # without new samples
    arrive(folder / "samples", "2.npz", 40)
    assert_same(play(started(folder), 2), second)
    third = play(started(folder), 3)  # with new samples
    assert third.samples == 80
    arrive(folder / "samples", "3.npz", 80)
    assert_same(play(started(folder), 3), third)
    assert play(started(folder), 4).samples == 120


def test_another_training_keeps_the_samples(folder: Path) -> None:
    arrive(folder / "samples", "1.npz", 0)
    play(started(folder), 1)
    arrive(folder / "samples", "2.npz", 40)
    assert play(started(folder), 1, training="tuesday").samples == 80


def test_samples_are_saved_only_when_some_have_arrived(folder: Path) -> None:
    arrive(folder / "samples", "1.npz", 0)
    app = started(folder)
    play(app, 1)
    saved = folder / "state" / "samples.safetensors"
    before = saved.stat().st_mtime_ns
    play(app, 2)
    assert saved.stat().st_mtime_ns == before
    arrive(folder / "samples", "2.npz", 40)
    play(app, 3)
    assert saved.stat().st_mtime_ns > before


def test_saved_samples_of_another_buffer_size_are_named(folder: Path) -> None:
    arrive(folder / "samples", "1.npz", 0)
    play(started(folder), 1)
    with pytest.raises(InvalidInput, match=r"samples\.safetensors: 40 of 40 samples were saved"):
        play(started(folder, size=20), 2)


def test_a_device_introduces_itself_with_the_samples_that_it_has_seen(folder: Path) -> None:
    arrive(folder / "samples", "1.npz", 0)
    play(started(folder), 1)
    grid = LocalGrid({1: started(folder)}, {1: {"name": "camera"}})
    ids = grid.push_messages([Message(RecordDict(), dst_node_id=1, message_type="query")])
    (message,) = grid.pull_messages(ids)
    introduction = from_content(message.content, Introduction)
    assert (introduction.name, introduction.samples) == ("camera", 40)
