"""Simulated rounds: who takes part, what it weighs and costs, and that a seed decides about all."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from dynamite_fl.client.client import Client
from dynamite_fl.client.executors import stacked
from dynamite_fl.client.flat_model import FlatModel
from dynamite_fl.client.messages import ClientState, Order
from dynamite_fl.client.optimizer import Optimizer
from dynamite_fl.control.registry import CONTROLLERS, make_controller
from dynamite_fl.partitions import by_owner, unequal
from dynamite_fl.records import Limits
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.task import Task
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.checkpoint import save
from dynamite_fl.training.evaluate import arrived_sample, evaluate
from dynamite_fl.training.loop import _round_order, begin, rounds, run_round
from dynamite_fl.training.progress import Round
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session
from dynamite_fl.training.training import Schedule, Training
from tests.models import ALL as MODELS
from tests.models import FEATURES, batch_norm_net, data, dropout_net, task_of
from tests.trainings import STREAM, training

EVERYONE = np.arange(5)
UNLIMITED: dict[str, Any] = {"deadline": 1e6, "budget": 1e6}


def streams_in(given: Training) -> Streams:
    assert isinstance(given.engine, SimulatedEngine)
    assert given.engine.streams is not None
    return given.engine.streams


def played_in(given: Training) -> list[Round]:
    return [each for _, each in rounds(given, begin(given)) if each is not None]


def test_models_are_weighed_by_all_that_has_arrived_and_not_by_what_is_stored() -> None:
    given = training("fedavg", stream={**STREAM, "spread": 1.0}, limits=UNLIMITED)
    progress = begin(given)
    for k in range(1, 9):
        progress, each = run_round(given, progress)
        assert each is not None
        seen = streams_in(given).seen(EVERYONE, k)
        assert each.outcome.report.samples.tolist() == seen.tolist()
        assert progress.samples.tolist() == seen.tolist() or k == 8  # the last has no next round
        assert torch.equal(progress.weights, average(each.outcome.updates, seen.astype(float)))
    assert (seen > 50).any()  # more than the buffer holds
    assert np.unique(seen).size > 1


def test_batches_follow_what_is_in_the_buffer() -> None:
    """FedAvg wants 60: it gets the 12 that are there, then 24, ..., and at most the buffer's 50."""
    given = training("fedavg", stream=STREAM, limits={**UNLIMITED, "rounds": 12})
    sizes = [each.plan.batch_sizes.max() for each in played_in(given)]
    assert sizes == [12, 12, 24, 24, 36, 36, 48, 48, 50, 50, 50, 50]  # as reported a round before


def test_a_client_that_has_no_sample_yet_is_absent_and_costs_nothing() -> None:
    """Nothing arrives before round 3; then everything goes on as usual."""
    stream = {**STREAM, "initial": 0, "every": 3}
    given = training("dynamite", stream=stream, limits=UNLIMITED)
    progress = begin(given)
    start = progress.weights
    for _ in range(2):
        progress, each = run_round(given, progress)
        assert each is not None
        assert not each.outcome.report.present.any()
        assert (each.outcome.samples, each.outcome.sent_bytes) == (0, 0)
        assert each.outcome.seconds > 0
        assert torch.equal(progress.weights, start)
    progress, each = run_round(given, progress)
    assert each is not None
    assert each.outcome.report.present.all()
    assert each.outcome.report.samples.tolist() == [12.0] * 5
    assert not torch.equal(progress.weights, start)


def test_who_never_receives_anything_is_never_there() -> None:
    """As a client to which the partition gives no sample; all others go on."""
    given = training("dynamite", stream=STREAM, limits=UNLIMITED)
    engine = given.engine
    assert isinstance(engine, SimulatedEngine)
    streams = streams_in(given)
    pool = streams._orders.pool
    nothing = np.zeros(0, dtype=np.int64)
    streams._orders = replace(
        streams._orders, pool=lambda client: nothing if client == 2 else pool(client)
    )
    for each in played_in(given):
        report = each.outcome.report
        assert report.present.tolist() == [True, True, False, True, True]
        assert np.isnan(report.samples[2])
    assert 2 not in engine.states
    assert engine.evaluate(engine.first_weights(), 3).stream_loss is not None


def test_absent_clients_come_back_to_the_buffer_they_would_have_had() -> None:
    devices = {"availability": 0.6, "dropout": 0.2}
    given = training("dynamite", stream=STREAM, devices=devices, limits=UNLIMITED, seed=2)
    last = dict.fromkeys(range(5), 0)
    for each in played_in(given):
        for client in each.outcome.report.clients[each.outcome.report.present]:
            last[int(client)] = each.outcome.report.round_index
    assert len(set(last.values())) > 1  # not all were there in the last round
    for client, round_index in last.items():
        buffer = None
        for k in range(1, round_index + 1):
            buffer, _ = streams_in(given).receive(client, k, buffer)
        found = given.engine.states[client].buffer
        assert found is not None
        assert buffer is not None
        assert found.rows.tolist() == buffer.rows.tolist()
        assert found.seen == buffer.seen


def test_probes_now_and_then_have_figures_every_time() -> None:
    for stream in (None, STREAM):
        given = training("dynamite", probe_every=3, stream=stream, limits=UNLIMITED)
        probes = {
            each.outcome.report.round_index: each.outcome.report.probe for each in played_in(given)
        }
        assert [k for k, probe in probes.items() if probe is not None] == [3, 6]
        for k in (3, 6):
            probe = probes[k]
            assert probe is not None
            assert np.isfinite(probe.loss).all()
            assert np.isfinite(probe.smoothness).all()
            assert np.isfinite(probe.drift).all() == (stream is not None)


def test_what_a_round_may_cost_covers_all_that_it_measures() -> None:
    """Drift and M_i are measured on samples of their own, in the rounds in which some arrive."""
    given = training("dynamite", stream={**STREAM, "every": 3}, limits=UNLIMITED)
    progress = begin(given)
    extra = []
    for _ in range(8):
        order = _round_order(given, progress)
        most = given.engine.most_samples(order)
        progress, each = run_round(given, progress)
        assert each.outcome.samples <= most
        planned = order.plan.local_steps * order.plan.batch_sizes.sum()
        extra.append(each.outcome.samples > planned)
    assert extra[2]
    assert extra[5]


def test_drift_raises_the_loss_that_is_planned_with() -> None:
    """In a burst of unseen classes psi is large once, in the round of the burst."""
    stream = {
        "arrivals": "burst",
        "order": "continuous",
        "initial": 30,
        "size": 200,
        "at": 6,
        "buffer_size": 100,
    }
    given = training("dynamite", stream=stream, limits={**UNLIMITED, "max_local_steps": 5})
    drift = {}
    for progress, each in rounds(given, begin(given)):
        assert each is not None
        drift[each.ledger.rounds] = given.controller.describe(progress.control).get("drift", 0.0)
        if each.ledger.rounds == 7:
            break
    assert drift[6] > 0.5
    assert [drift[k] for k in (2, 3, 4, 5, 7)] == [0.0] * 5


def test_an_unseen_class_is_unknown_until_it_arrives() -> None:
    stream = {**STREAM, "initial": 25, "size": 200, "every": 10, "buffer_size": 300}
    limits = {**UNLIMITED, "rounds": 30, "max_local_steps": 10}
    given = training("dynamite", stream=stream, limits=limits)
    judged = [each.evaluation for each in played_in(given)]
    before, after = judged[8], judged[-1]
    assert before is not None
    assert after is not None
    unknown = [label for label, accuracy in before.class_accuracy.items() if accuracy == 0]
    assert len(unknown) >= 3
    assert all(after.class_accuracy[label] > 0.3 for label in unknown)


@pytest.mark.parametrize("model", ["svm", "perceptron", "cnn"])
def test_other_models_learn_from_a_stream(model: str) -> None:
    limits = {**UNLIMITED, "rounds": 4, "max_local_steps": 3}
    given = training("dynamite", model=model, stream={**STREAM, "order": "iid"}, limits=limits)
    last = played_in(given)[-1]
    assert last.outcome.report.probe is not None
    assert np.isfinite(last.outcome.report.probe.loss).all()
    assert last.evaluation is not None
    assert last.evaluation.stream_loss is not None


@pytest.mark.parametrize("controller", ["dynamite", "fedavg"])
def test_workers_change_no_bit_of_a_stream(
    controller: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Placeholders of states are sent with probes, and whole states without."""
    monkeypatch.setattr(stacked, "_LARGEST_MODEL", 0)  # otherwise workers would have nothing to do
    torch.set_num_threads(1)
    found = []
    for workers in (1, 2):
        folder = RunFolder(tmp_path / str(workers))
        given = training(
            controller,
            model="perceptron",
            stream={**STREAM, "spread": 0.5},
            devices={"availability": 0.8},
            workers=workers,
        )
        folder.path.mkdir()
        with given.engine:  # type: ignore[attr-defined]
            for progress, _ in rounds(given, begin(given)):
                last = progress
            save(given, folder, last, last_check="")
            states = sorted(given.engine.states.items())
            buffers = {i: state.buffer for i, state in states}
        rows = {i: each.rows.tolist() for i, each in buffers.items() if each is not None}
        assert rows
        found.append((last.ledger, folder.model.read_bytes(), rows))
    assert found[0] == found[1]


def test_the_stream_s_loss_is_judged_on_what_has_arrived_each_of_it_alike() -> None:
    """Chi-square over 60 rounds' samples of a thousand, of the fleet's first five dozen."""
    given = training("fedavg", stream={**STREAM, "every": 1000})
    streams = streams_in(given)
    arrived = np.concatenate([streams.history(client)[:12] for client in range(5)])
    rows = np.concatenate([arrived_sample(streams, 5, seed, 3) for seed in range(60)])
    assert set(rows.tolist()) <= set(arrived.tolist())
    count = np.array([(rows == row).sum() for row in arrived])
    expected = rows.size / 60
    assert ((count - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, 59)
    assert arrived_sample(streams, 0, 0, 1).size == 0


@pytest.mark.parametrize("name", CONTROLLERS)
def test_cohorts_of_a_stream(name: str) -> None:
    given = training(name, cohort=2, stream={**STREAM, "spread": 1.0}, limits=UNLIMITED)
    played = played_in(given)
    assert {each.outcome.report.clients.size for each in played} == {2}
    assert played[-1].evaluation is not None


# Any model, data and optimiser: a key decides what is drawn, wherever it is computed.


class Augmented(Dataset[Any]):
    """Adds noise of torch, NumPy and Python to the samples."""

    def __init__(self, samples: int = 90) -> None:
        self.inputs, self.labels = data(samples)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Any:
        noise = torch.randn(FEATURES) + np.random.normal() + random.gauss(0, 1)  # noqa: NPY002
        return self.inputs[index] + 0.1 * noise, int(self.labels[index])


def noisy_task() -> Task:
    return task_of(dropout_net, train_data=Augmented())


def noisy_training(
    workers: int = 1, seed: int = 0, controller: str = "dynamite", **engine: Any
) -> Training:
    """A training whose model, data and optimiser draw at random or keep a state."""
    task = noisy_task()
    devices = Devices(samples_per_second=[50, 80, 100], latency=0.05, jitter=0.2, availability=0.9)
    partition = unequal(spread=0.5).split(np.zeros(90), 3, seed=1)
    made = SimulatedEngine(
        task,
        partition,
        devices,
        seed=seed,
        optimizer=Optimizer("SGD", momentum=0.5, keep_state=True),
        workers=workers,
        **engine,
    )
    chosen = make_controller(controller, learning_rate=0.1)
    limits = Limits(
        rounds=6,
        deadline=60,
        budget=300,
        cost_per_sample=0.02,
        cost_per_round=1,
        max_local_steps=6,
    )
    return Training(made, chosen, limits, Schedule(seed=seed), made.enroll(), RateSchedule(0.1))


def results(folder: Path) -> tuple[bytes, str]:
    run = RunFolder(folder)
    return run.model.read_bytes(), run.history.read_text()


def run_in(folder: Path, given: Training, stop_after: int | None = None) -> tuple[bytes, str]:
    folder.mkdir(exist_ok=True)
    seen: list[object] = []
    Session(
        given,
        RunFolder(folder),
        on_round=[seen.append],
        should_stop=lambda: len(seen) == stop_after,
    ).run()
    return results(folder)


def generators() -> tuple[Any, ...]:
    of_numpy: Any = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), of_numpy[1].tolist(), of_numpy[2:], random.getstate()


@pytest.mark.parametrize("controller", ["dynamite", "dynamite-feedback"])
def test_a_seed_decides_about_everything_and_outside_generators_are_left_alone(
    tmp_path: Path, controller: str
) -> None:
    torch.set_num_threads(1)
    random.seed(1)
    before = generators()
    alone = run_in(tmp_path / "alone", noisy_training(controller=controller))
    assert generators() == before
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    random.seed(99)
    assert run_in(tmp_path / "again", noisy_training(controller=controller)) == alone
    assert run_in(tmp_path / "other", noisy_training(seed=1, controller=controller)) != alone


@pytest.mark.parametrize(("workers", "controller"), [(2, "dynamite"), (3, "fedavg")])
def test_workers_change_no_bit_of_what_is_drawn_at_random(
    tmp_path: Path, workers: int, controller: str
) -> None:
    """With fedavg, the optimiser's state is all that a client keeps."""
    torch.set_num_threads(1)
    alone = run_in(tmp_path / "alone", noisy_training(controller=controller))
    assert run_in(tmp_path / "workers", noisy_training(workers, controller=controller)) == alone


def test_a_resume_changes_no_bit_of_what_is_drawn_at_random(tmp_path: Path) -> None:
    """The optimisers' states are in the checkpoint."""
    torch.set_num_threads(1)
    alone = run_in(tmp_path / "alone", noisy_training())
    cut = tmp_path / "cut"
    run_in(cut, noisy_training(), stop_after=2)
    run_in(cut, noisy_training(2), stop_after=2)
    assert run_in(cut, noisy_training()) == alone


def test_the_order_of_clients_changes_no_bit() -> None:
    engine: Any = noisy_training().engine
    weights = engine.first_weights()
    orders = [
        Order(client, 4, weights, 3, 8, 0.1, probe=True, remember=True, path=True)
        for client in range(3)
    ]
    first = [engine.client(order.client).run_round(order, ClientState()) for order in orders]
    for order in reversed(orders):
        reply = engine.client(order.client).run_round(order, ClientState())
        expected = first[order.client]
        assert torch.equal(reply.weights, expected.weights)
        assert reply.gradient_variance == expected.gradient_variance
        assert torch.equal(reply.path.first_half, expected.path.first_half)
    assert len({float(reply.weights.sum()) for reply in first}) == 3


def test_clients_and_rounds_draw_differently() -> None:
    """Two clients with the same samples and the same batches differ by what is dropped."""
    task = task_of(dropout_net, train_data=data(8))
    model = FlatModel(task, 0)
    client = Client(model, task.train, np.arange(8), seed=0)
    order = Order(0, 1, model.first_weights, 1, 8, 0.1, probe=False, remember=False)
    replies = [
        client.run_round(replace(order, client=place, round_index=k), ClientState()).weights
        for place, k in ((0, 1), (0, 1), (1, 1), (0, 2))
    ]
    assert torch.equal(replies[0], replies[1])
    assert not torch.equal(replies[0], replies[2])
    assert not torch.equal(replies[0], replies[3])


def own_data(client: int, samples: int) -> tuple[Tensor, Tensor]:
    inputs, labels = data(samples, seed=10 + client)
    return inputs + client, labels


@pytest.mark.parametrize("kind", ["tensors", "datasets"])
@pytest.mark.parametrize("workers", [1, 2])
def test_each_client_learns_from_its_own_dataset_and_is_tested_on_it(
    kind: str, workers: int
) -> None:
    sizes = (20, 1, 35)
    pairs: list[Any] = [own_data(client, size) for client, size in enumerate(sizes)]
    train = [TensorDataset(*pair) for pair in pairs] if kind == "datasets" else pairs
    task = task_of(
        batch_norm_net,
        train_data=train,
        test_data=[own_data(client, 12) for client in range(3)],
        metrics=["accuracy"],
    )
    partition = by_owner().split(np.zeros(56), 3, owners=task.owners)
    devices = Devices(samples_per_second=[50, 80, 100], latency=0.05)
    with SimulatedEngine(task, partition, devices, workers=workers) as engine:
        fedavg = make_controller("fedavg", learning_rate=0.1)
        limits = Limits(rounds=3, deadline=1e3, budget=1e3, cost_per_sample=0.01, cost_per_round=1)
        given = Training(engine, fedavg, limits, Schedule(), engine.enroll(), RateSchedule(0.1))
        *_, (progress, last) = rounds(given, begin(given))
    assert last is not None
    assert last.outcome.report.samples.tolist() == list(sizes)
    evaluation = last.evaluation
    assert evaluation is not None
    assert evaluation.client_metrics is not None
    model = task.new_model(0)
    model.load_state_dict(engine.state_dict(progress.weights))
    model.eval()
    with torch.no_grad():
        for client, found in enumerate(evaluation.client_metrics):
            inputs, labels = own_data(client, 12)
            assert found == float((model(inputs).argmax(1) == labels).double().mean())
    assert evaluation.metrics["accuracy"] == pytest.approx(np.mean(evaluation.client_metrics))


def test_the_loss_of_a_stream_is_computed_on_each_client_s_own_data() -> None:
    """One sample of each of two clients; rows of both are in the sample that is drawn."""
    sums = [(torch.full((30, FEATURES), float(k)), torch.full((30,), float(k))) for k in (1, 3)]
    task = Task(
        model=lambda: nn.Linear(FEATURES, 1),
        loss=lambda outputs, targets: (0 * outputs[:, 0] + targets).square().mean(),
        train_data=[TensorDataset(*sums[0]), sums[1]],
        test_data=sums[0],
    )
    model = FlatModel(task, 0)
    rows = np.array([0, 45, 7, 59, 31, 2])
    found = evaluate(model, model.first_weights, rows).stream_loss
    assert found == pytest.approx((3 * 1 + 3 * 9) / 6)


@pytest.mark.parametrize("name", ["tanh", "dropout", "batch norm", "gru"])
@pytest.mark.parametrize("optimizer", [Optimizer(), Optimizer("AdamW"), Optimizer(proximal=0.1)])
@pytest.mark.parametrize("controller", ["dynamite-feedback", "dynamite"])
def test_every_model_is_trained_with_every_optimiser(
    name: str, optimizer: Optimizer, controller: str
) -> None:
    task = task_of(MODELS[name])
    partition = unequal(spread=1.0).split(np.zeros(90), 5, seed=0)
    devices = Devices(samples_per_second=[5, 80, 100, 20, 40], latency=0.1)
    rate = 0.01 if optimizer.name == "AdamW" else 0.1
    engine = SimulatedEngine(task, partition, devices, optimizer=optimizer)
    limits = Limits(
        rounds=4,
        deadline=60,
        budget=60,
        cost_per_sample=0.01,
        cost_per_round=1,
        max_local_steps=4,
    )
    chosen = make_controller(controller, learning_rate=rate)
    played = played_in(
        Training(engine, chosen, limits, Schedule(), engine.enroll(), RateSchedule(rate))
    )
    assert len(played) >= 3
    assert all(each.refused == 0 for each in played)
    last = played[-1].evaluation
    assert last is not None
    assert np.isfinite(last.loss)
    path = played[-1].outcome.report.path
    assert (path is not None) == (controller == "dynamite-feedback")
    if path is not None:
        assert (path.gradient is not None) == (not optimizer.is_plain)
