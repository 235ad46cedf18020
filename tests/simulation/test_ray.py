"""Clients that compute on Ray: without Ray's processes, and on a real one in ``make test-all``."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import Context, RecordDict

from dynamite_fl.client.executors import stacked
from dynamite_fl.errors import InvalidInput, WorkerError
from dynamite_fl.simulation import ray as on_ray
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.simulation.ray import RayExecutor
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session
from dynamite_fl.training.training import Training
from tests._cli.commands import dynamite
from tests.flower.local_grid import LocalGrid
from tests.processes import HANG_SECONDS, start_command, wait_until
from tests.trainings import STREAM, training

JOB = """
[task]
model = "cnn"
dataset = "digits"

[partition]
kind = "dirichlet"
alpha = 0.5

[devices]
samples_per_second = [100, 200, 50]
latency = 0.1
jitter = 0.2

[stream]
arrivals = "smooth"
order = "iid"
initial = 40
size = 20
every = 2
buffer_size = 60

[limits]
rounds = {rounds}
deadline = 1000
budget = 2000
cost_per_sample = 0.001
cost_per_round = 1
max_local_steps = 4

[controller]
name = "dynamite"

[training]
learning_rate = 0.05
"""
FILES = ("history.jsonl", "model.safetensors", "checkpoint.safetensors")


def check_equal(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


@pytest.fixture
def local_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Flower's simulation call clients in this process, without Ray."""

    def simulate(server: Any, client: Any, count: int, **_: object) -> None:
        apps: dict[int, Callable[..., Any]] = {10 + place: client for place in range(count)}
        context = Context(1, 1, {}, RecordDict(), {}, series_id=1)
        server(LocalGrid(apps, {node: {} for node in apps}), context)

    ray = SimpleNamespace(put=lambda value: value, shutdown=lambda: None)
    monkeypatch.setattr(on_ray, "_connected", lambda _: ray)
    monkeypatch.setattr(on_ray, "_fetch_make_client", lambda maker: maker)
    monkeypatch.setattr(on_ray, "run_simulation", simulate)
    monkeypatch.setattr(stacked, "_LARGEST_MODEL", 0)  # clients compute one by one, as on Ray


def put_on_ray(given: Training) -> Training:
    engine = given.engine
    assert isinstance(engine, SimulatedEngine)
    engine.executor = RayExecutor(engine.clients.make, len(engine.devices))
    return given


@pytest.mark.usefixtures("local_simulation")
def test_the_executor_changes_no_bit(tmp_path: Path) -> None:
    """Orders, states and replies survive the way through Flower's messages."""
    for name, prepare in (("here", lambda given: given), ("ray", put_on_ray)):
        (tmp_path / name).mkdir()
        given = prepare(training("dynamite", stream=STREAM))
        Session(given, RunFolder(tmp_path / name)).run()
    check_equal(tmp_path / "here", tmp_path / "ray")


@pytest.mark.usefixtures("local_simulation")
def test_a_client_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    given = put_on_ray(training("fedavg"))

    def fail(_: object) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(on_ray, "_fetch_make_client", fail)
    with pytest.raises(WorkerError, match="a client failed on Ray: out of memory"):
        Session(given).run()


@pytest.mark.usefixtures("local_simulation")
def test_a_simulation_that_ends_too_early_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no memory for objects")

    monkeypatch.setattr(on_ray, "run_simulation", fail)
    with pytest.raises(WorkerError, match="has ended: no memory for objects"):
        put_on_ray(training("fedavg"))


@pytest.fixture
def no_ray_there(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return an address at which no Ray is, and keep the environment as it was."""
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    return "127.0.0.1:1"


def test_an_address_where_no_ray_is(no_ray_there: str) -> None:
    with pytest.raises(InvalidInput, match=f"Ray is not at RAY_ADDRESS={no_ray_there}"):
        put_on_ray(training("fedavg"))


def processes_of_session(leader: int) -> list[str]:
    """Return the processes that a command and its children have started."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "sid=,stat=,args="],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [row[2] for row in rows if row[0] == str(leader) and not row[1].startswith("Z")]


@pytest.mark.slow
def test_an_interrupted_run_on_ray_leaves_no_process_and_goes_on_to_the_same_bits(
    tmp_path: Path,
) -> None:
    """Flower's simulation on a real Ray, in processes as a user has them."""
    rounds, job = 40, tmp_path / "job.toml"
    job.write_text(JOB.format(rounds=rounds))
    process = start_command(
        *("run", job, "--runs", tmp_path, "--name", "ray", "--engine", "ray"), new_session=True
    )
    history = tmp_path / "ray" / "history.jsonl"
    wait_until(
        lambda: (
            process.poll() is not None
            or (history.exists() and history.read_bytes().count(b"\n") >= 3)
        )
    )
    assert process.poll() is None
    assert any("raylet" in command for command in processes_of_session(process.pid))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: Ray's processes get it too
    assert process.wait(HANG_SECONDS) == 130
    wait_until(
        lambda: not processes_of_session(process.pid), lambda: processes_of_session(process.pid)
    )
    assert history.read_bytes().count(b"\n") < rounds
    resumed = dynamite("resume", tmp_path / "ray", "--engine", "ray")
    assert resumed.returncode == 0, resumed.stderr
    whole = dynamite("run", job, "--runs", tmp_path, "--name", "here")
    assert whole.returncode == 0, whole.stderr
    check_equal(tmp_path / "here", tmp_path / "ray")
