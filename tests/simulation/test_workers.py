import gc
import mmap
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.probe import ProbeMemory
from dynamite_fl.control.registry import make_controller
from dynamite_fl.errors import WorkerError
from dynamite_fl.partitions import unequal
from dynamite_fl.records import Limits
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.simulation.placeholder import is_placeholder
from dynamite_fl.simulation.workers import WorkerProcesses
from dynamite_fl.task import losses
from dynamite_fl.task.task import Task
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session
from dynamite_fl.training.training import Schedule, Training
from tests.processes import HANG_SECONDS, is_running, wait_until

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)
CLIENTS = 7
FEATURES = 20


@pytest.fixture(autouse=True)
def one_thread_and_no_process_left() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    gc.collect()
    assert multiprocessing.active_children() == []


def make_engine(workers: int) -> SimulatedEngine:
    random = torch.Generator().manual_seed(3)
    inputs = torch.randn(500, FEATURES, generator=random)
    targets = inputs[:, :4].argmax(1)
    task = Task(
        name="largest of four",
        model=lambda: nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, 4)),
        loss=losses.cross_entropy,
        train_data=(inputs[:400], targets[:400]),
        test_data=(inputs[400:], targets[400:]),
        metrics=["accuracy"],
    )
    devices = Devices(
        samples_per_second=[50, 80, 100, 60, 70, 90, 120],
        latency=0.05,
        jitter=0.2,
        availability=0.9,
        dropout=0.1,
    )
    partition = unequal(spread=0.5).split(targets[:400].numpy(), CLIENTS, seed=1)
    return SimulatedEngine(task, partition, devices, workers=workers)


def make_training(workers: int) -> Training:
    engine = make_engine(workers)
    return Training(
        engine,
        make_controller("dynamite", learning_rate=0.2),
        Limits(rounds=12, deadline=60, budget=300, cost_per_sample=0.02, cost_per_round=1),
        Schedule(),
        engine.enroll(),
        RateSchedule(0.2),
    )


def orders_for(engine: SimulatedEngine, weights: Tensor, round_index: int = 1) -> list[Order]:
    return [
        Order(client, round_index, weights, 2, 8, learning_rate=0.2, probe=True, remember=True)
        for client in range(len(engine.partition))
    ]


def worker_processes(engine: SimulatedEngine, workers: int = 2) -> WorkerProcesses:
    return WorkerProcesses(workers, engine.clients.make)


def result(folder: RunFolder) -> tuple[bytes, str]:
    return folder.model.read_bytes(), folder.history.read_text()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    folder = RunFolder(tmp_path_factory.mktemp("alone"))
    torch.set_num_threads(1)
    assert len(Session(make_training(1), folder).run().history) >= 8
    return result(folder)


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_change_no_bit(workers: int, tmp_path: Path, alone: tuple[bytes, str]) -> None:
    folder = RunFolder(tmp_path)
    Session(make_training(workers), folder).run()
    assert result(folder) == alone
    assert '"absent": []' in alone[1]
    assert alone[1].count('"absent": []') < alone[1].count("\n")  # some were absent


@pytest.mark.parametrize("workers", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))])
def test_an_interruption_changes_no_bit(
    workers: int, tmp_path: Path, alone: tuple[bytes, str]
) -> None:
    folder = RunFolder(tmp_path)
    for count in (3, 2):  # each time, with other workers, from the last checkpoint
        seen = list[RoundRecord]()
        cut = Session(
            make_training(workers),
            folder,
            on_round=[seen.append],
            should_stop=lambda seen=seen, count=count: len(seen) == count,  # type: ignore[misc]
        ).run()
        assert cut.stopped_by is None
    Session(make_training(4 - workers), folder).run()
    assert result(folder) == alone


def test_states_are_whole_and_stay_so_when_a_round_follows() -> None:
    here, there = make_training(1), make_training(2)
    for training in (here, there):
        played = rounds(training, begin(training))
        for _ in range(3):
            next(played)
            states = training.engine.states
            assert states
            assert not any(is_placeholder(state) for state in states.values())
    for client, state in here.engine.states.items():
        theirs = there.engine.states[client]
        assert (state.memory is None) == (theirs.memory is None)
        if state.memory is not None and theirs.memory is not None:
            assert torch.equal(state.memory.gradient, theirs.memory.gradient)


def test_a_state_put_in_replaces_that_of_the_worker() -> None:
    engine = make_engine(2)
    weights = engine.first_weights()
    workers = worker_processes(engine)
    orders = orders_for(engine, weights)
    replies = workers.run_round(orders, [ClientState()] * CLIENTS)
    workers.keep(range(CLIENTS))
    placeholders = [reply.state for reply in replies]
    assert all(is_placeholder(state) for state in placeholders)
    given = [ClientState(gradient_variance=5.0), *placeholders[1:]]
    again = workers.run_round(orders_for(engine, weights - 0.1, round_index=2), given)
    assert again[0].figures is None
    assert again[0].gradient_variance == 5.0
    assert all(reply.figures is not None for reply in again[1:])


def test_a_state_that_is_not_kept_is_as_it_was() -> None:
    engine = make_engine(2)
    weights = engine.first_weights()
    workers = worker_processes(engine)
    first = workers.run_round(orders_for(engine, weights), [ClientState()] * CLIENTS)
    workers.keep(range(CLIENTS))
    workers.run_round(orders_for(engine, weights, 2), [reply.state for reply in first])
    workers.keep([1, 2])
    states = workers.take_states()
    assert sorted(states) == list(range(CLIENTS))
    alone = engine.client(0).run_round(orders_for(engine, weights)[0], ClientState()).state
    kept = states[0].memory
    assert kept is not None
    assert alone.memory is not None
    assert torch.equal(kept.weights, alone.memory.weights)
    assert workers.take_states() == {}


class Stub:
    """A client without data.

    Its reply says which process has computed it, as the number of samples. An order with a probe
    lets it wait until all other clients are computed. An order to remember gives it a state with
    the number of the round in a tensor.
    """

    last_rounds = mmap.mmap(-1, CLIENTS)  # of all clients, shared by forks

    def run_round(self, order: Order, state: ClientState) -> Reply:
        if order.probe:
            wait_until(lambda: bytes(self.last_rounds).count(order.round_index) == CLIENTS - 1)
        self.last_rounds[order.client] = order.round_index
        if order.remember:
            number = torch.full((3,), float(order.round_index))
            state = ClientState(ProbeMemory(np.arange(2), number, 0.0, number, 0.0))
        else:
            state = replace(state, memory=None)
        return Reply(order.weights, os.getpid(), None, None, None, 0, state)


@pytest.fixture
def stubs() -> Iterator[WorkerProcesses]:
    Stub.last_rounds[:] = bytes(CLIENTS)
    make_stub: Any = lambda _client: Stub()  # noqa: E731
    workers = WorkerProcesses(2, make_stub)
    yield workers
    workers.close()


def stub_orders(round_index: int, *, waits: int, remember: bool = True) -> list[Order]:
    """Return orders to all stubs; the one that waits for the others gets the first order."""
    orders = [
        Order(client, round_index, torch.ones(3), 1, 1, 0.1, client == waits, remember)
        for client in range(CLIENTS)
    ]
    return sorted(orders, key=lambda order: not order.probe)


def run_stubs(
    workers: WorkerProcesses, orders: list[Order], states: dict[int, ClientState]
) -> tuple[dict[int, int], dict[int, ClientState]]:
    """Run and keep a round, and return the process and the state of each client."""
    given = [states.get(order.client, ClientState()) for order in orders]
    replies = workers.run_round(orders, given)
    workers.keep(order.client for order in orders)
    clients = [order.client for order in orders]
    return (
        {client: reply.samples for client, reply in zip(clients, replies, strict=True)},
        {client: reply.state for client, reply in zip(clients, replies, strict=True)},
    )


def test_clients_go_to_the_worker_that_is_free(stubs: WorkerProcesses) -> None:
    processes, _ = run_stubs(stubs, stub_orders(1, waits=0), {})
    assert [*processes.values()].count(processes[0]) == 1
    assert len(set(processes.values())) == 2


def test_a_kept_state_stays_where_it_is(stubs: WorkerProcesses) -> None:
    first, placeholders = run_stubs(stubs, stub_orders(1, waits=0), {})
    assert all(map(is_placeholder, placeholders.values()))
    orders = [replace(order, probe=False) for order in stub_orders(2, waits=0)]
    second, _ = run_stubs(stubs, orders, placeholders)
    assert second == first  # one worker has computed a single client again


def test_a_whole_state_may_move_and_is_kept_once(stubs: WorkerProcesses) -> None:
    first, _ = run_stubs(stubs, stub_orders(1, waits=0), {})
    second, _ = run_stubs(stubs, stub_orders(2, waits=6), {})
    moved = {client for client in range(CLIENTS) if first[client] != second[client]}
    assert moved >= {0, 6}  # between the workers, in both directions
    states = stubs.take_states()
    assert sorted(states) == list(range(CLIENTS))
    for state in states.values():
        assert state.memory is not None
        assert state.memory.weights.tolist() == [2, 2, 2]
    third, _ = run_stubs(stubs, stub_orders(3, waits=0), states)
    assert [*third.values()].count(third[0]) == 1


def test_a_state_without_tensors_comes_with_the_reply(stubs: WorkerProcesses) -> None:
    _, placeholders = run_stubs(stubs, stub_orders(1, waits=0), {})
    light = ClientState(gradient_variance=4.0)
    orders = stub_orders(2, waits=1, remember=False)
    _, states = run_stubs(stubs, orders, {**placeholders, 1: light})
    assert states[1] is not light
    assert states[1].gradient_variance == 4.0
    assert not any(map(is_placeholder, states.values()))
    assert stubs.take_states() == {}


def test_a_killed_worker_is_an_error_and_not_a_hang() -> None:
    engine = make_engine(2)
    workers = worker_processes(engine)
    orders, states = orders_for(engine, engine.first_weights()), [ClientState()] * CLIENTS
    workers.run_round(orders, states)
    victim = workers._processes[1].pid
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"worker 1 of 2 .* signal 9"):
        workers.run_round(orders, states)
    with pytest.raises(WorkerError, match="have been ended"):
        workers.run_round(orders, states)


class Flag:
    """A flag that forks share. A process that is killed while it waits blocks no other one."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._byte[0] = 1

    def clear(self) -> None:
        self._byte[0] = 0

    def wait(self) -> None:
        wait_until(lambda: self._byte[0] == 1)


class Pausing:
    """A loss that tells when a worker computes it, and waits to be allowed to go on."""

    def __init__(self) -> None:
        self.begun, self.may_go_on = Flag(), Flag()

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.begun.set()
        self.may_go_on.wait()
        return losses.cross_entropy(outputs, targets)

    def once_begun(self, action: Callable[[], None]) -> threading.Thread:
        """Start a thread that acts when a worker computes, and then lets it go on."""

        def act() -> None:
            self.begun.wait()
            action()
            self.may_go_on.set()

        thread = threading.Thread(target=act)
        thread.start()
        return thread


def test_a_worker_killed_while_it_computes_is_an_error() -> None:
    loss, engine = Pausing(), make_engine(2)
    workers = worker_processes(replace(engine, task=replace(engine.task, loss=loss)))
    workers.keep([])
    victim = workers._processes[0].pid
    assert victim is not None
    killing = loss.once_begun(lambda: os.kill(victim, signal.SIGKILL))
    with pytest.raises(WorkerError, match="worker 0"):
        workers.run_round(orders_for(engine, engine.first_weights()), [ClientState()] * CLIENTS)
    killing.join()


def fails(outputs: Tensor, targets: Tensor) -> Tensor:
    raise ZeroDivisionError(f"{outputs.shape} {targets.shape}")


def test_a_failing_loss_is_told_with_its_place() -> None:
    engine = make_engine(2)
    engine = replace(engine, task=replace(engine.task, loss=fails))
    workers = worker_processes(engine)
    states = [ClientState()] * CLIENTS
    for _ in range(2):  # and workers are still there
        with pytest.raises(WorkerError, match=r"(?s)client \d.*ZeroDivisionError"):
            workers.run_round(orders_for(engine, engine.first_weights()), states)


def test_ctrl_c_in_a_round_leaves_workers_that_answer() -> None:
    loss, engine = Pausing(), make_engine(2)
    loss.may_go_on.set()
    engine = replace(engine, task=replace(engine.task, loss=loss))
    weights = engine.first_weights()
    workers = worker_processes(engine)
    first = workers.run_round(orders_for(engine, weights), [ClientState()] * CLIENTS)
    workers.keep(range(CLIENTS))
    loss.begun.clear()
    loss.may_go_on.clear()
    pressing = loss.once_begun(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        workers.run_round(orders_for(engine, weights, 2), [reply.state for reply in first])
    pressing.join()
    states = workers.take_states()
    assert sorted(states) == list(range(CLIENTS))
    again = workers.run_round(orders_for(engine, weights, 2), [states[c] for c in range(CLIENTS)])
    alone = [
        engine.client(order.client).run_round(order, states[order.client])
        for order in orders_for(engine, weights, 2)
    ]
    for ours, theirs in zip(again, alone, strict=True):
        assert torch.equal(ours.weights, theirs.weights)


def test_closing_and_forgetting_end_the_workers() -> None:
    with make_engine(2) as engine:
        engine._execute(orders_for(engine, engine.first_weights()))
        assert len(multiprocessing.active_children()) == 2
    assert multiprocessing.active_children() == []
    engine = make_engine(3)
    engine._execute(orders_for(engine, engine.first_weights()))
    assert len(multiprocessing.active_children()) == 3
    del engine
    assert multiprocessing.active_children() == []


def end_normally() -> None:
    pass


def end_with_an_error() -> None:
    raise SystemExit(3)


def end_by_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def end_when_asked() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def end_at_once() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def start_workers_and_end(pids: Connection, end: Callable[[], None]) -> None:
    engine = make_engine(2)
    engine._execute(orders_for(engine, engine.first_weights()))
    pids.send([child.pid for child in multiprocessing.active_children()])
    end()


@pytest.mark.parametrize(
    "end", [end_normally, end_with_an_error, end_by_ctrl_c, end_when_asked, end_at_once]
)
def test_workers_do_not_outlive_the_parent(end: Callable[[], None]) -> None:
    """The parent is a fork of this process, which takes no time to start."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    parent = context.Process(target=start_workers_and_end, args=(theirs, end))
    parent.start()
    workers = ours.recv()
    assert len(workers) == 2
    parent.join(HANG_SECONDS)
    assert parent.exitcode is not None
    wait_until(lambda: not any(map(is_running, workers)))


def test_at_least_one_worker_is_needed() -> None:
    with pytest.raises(ValueError, match="workers is 0"):
        make_engine(0)
