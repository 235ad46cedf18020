"""DYNAMITE against Algorithms 1 to 3 written out line by line (``algorithms.py``)."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dynamite_fl import Limits
from dynamite_fl._random import client_stream
from dynamite_fl.client.batches import BATCHES, VARIANCE, draw_batches
from dynamite_fl.client.probe_settings import ProbeSettings
from dynamite_fl.control.dynamite import Dynamite
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.stream.buffer import Buffer
from dynamite_fl.stream.stream import Stream
from dynamite_fl.stream.streams import Streams
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.task import Task
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.training import Schedule, Training
from tests.findings.algorithms import AlgorithmThree, AlgorithmTwo, Rows

SIZES, FEATURES, CLASSES, ETA, SEED, K = [40, 90, 60, 30], 5, 3, 0.1, 3, 14
SPEEDS, SECONDS = [60.0, 90.0, 200.0, 400.0], [0.3, 0.1, 0.2, 0.1]
LIMITS = Limits(
    rounds=K,
    deadline=8.63,
    budget=24.3,
    cost_per_sample=0.0101,
    cost_per_round=0.407,
    max_local_steps=12,
)
STREAM = {
    "arrivals": "smooth",
    "order": "iid",
    "initial": 14,
    "size": 9,
    "every": 3,
    "buffer_size": 25,
}
VARIANCE_SAMPLES = 20


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Return samples whose clients differ: each has a centre of its own."""
    random = torch.Generator().manual_seed(0)
    owner = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
    centres = 1.5 * torch.randn(len(SIZES), FEATURES, generator=random)
    x = centres[owner] + torch.randn(sum(SIZES), FEATURES, generator=random)
    true = torch.randn(CLASSES, FEATURES, generator=random)
    return x.double(), (x @ true.T).argmax(1)


def ours(training: Training) -> list[tuple[Any, ...]]:
    """Return the same of each round as ``AlgorithmTwo.run``."""
    history = []
    for progress, played in rounds(training, begin(training)):
        weights = progress.weights.numpy().reshape(CLASSES, FEATURES)
        probe = played.outcome.report.probe
        assert probe is not None
        known = training.controller.describe(progress.control)
        sizes = played.plan.batch_sizes.tolist()
        variance = probe.gradient_variance.tolist()
        history.append((played.plan.local_steps, sizes, weights, known, variance))
    return history


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1e9])
@pytest.mark.parametrize("streams", [False, True], ids=["static", "streams"])
def test_estimates_and_plans_are_those_of_the_printed_algorithms(
    streams: bool, epsilon: float
) -> None:
    x, y = data()
    task = Task(
        name="softmax in double precision",
        model=lambda: nn.Linear(FEATURES, CLASSES, bias=False).double(),
        loss=nn.functional.cross_entropy,
        train_data=(x, y),
        test_data=(x, y),
    )
    split = Partition.from_owners(np.repeat(np.arange(len(SIZES)), SIZES))
    made = None
    if streams:
        made = Stream.from_table(STREAM).build(split.indices, y.numpy(), K, SEED)
    engine = SimulatedEngine(
        task,
        split,
        Devices(samples_per_second=SPEEDS, latency=SECONDS),
        SEED,
        ProbeSettings(variance_samples=VARIANCE_SAMPLES, loss_rise=epsilon),
        streams=made,
    )
    controller = Dynamite(first_batch=8, most_quadratic_bound=1e9)
    schedule = Schedule(free_probes=True, seed=SEED)
    training = Training(engine, controller, LIMITS, schedule, engine.enroll(), RateSchedule(ETA))
    reference = AlgorithmTwo(
        clients=[client(i, x, y, split, made, epsilon) for i in range(len(SIZES))],
        theta=LIMITS.deadline,
        R=LIMITS.budget,
        K=K,
        tau_max=LIMITS.max_local_steps,
        eta=ETA,
        a=LIMITS.cost_per_sample,
        b=LIMITS.cost_per_round,
        w=engine.first_weights().numpy().reshape(CLASSES, FEATURES),
        s_1=8,
    )
    found, printed = ours(training), reference.run()
    assert len(found) == len(printed) == K
    assert len({tau for tau, *_ in printed}) > 2  # plans change, so that something is compared
    measured = [variance for *_, variance in printed]
    assert (measured[0] != measured[-1]) == (epsilon < 1e9)
    for (tau, s, w, known, variance), (tau_k, s_k, w_k, estimates, printed_variance) in zip(
        found, printed, strict=True
    ):
        assert tau == tau_k
        assert s == s_k
        np.testing.assert_allclose(w, w_k, rtol=1e-9, atol=1e-12)
        assert variance == pytest.approx(printed_variance, rel=1e-6)
        if estimates is not None:
            assert known["quadratic_bound"] == pytest.approx(estimates.rho, rel=1e-4)
            assert known["smoothness"] == pytest.approx(estimates.beta, rel=1e-6)
            assert known["pl_constant"] == pytest.approx(estimates.c, rel=1e-6)
            assert known["divergence"] == pytest.approx(estimates.delta, rel=1e-6)
            assert known["loss"] == pytest.approx(estimates.F, rel=1e-6)


def client(
    i: int,
    x: torch.Tensor,
    y: torch.Tensor,
    split: Partition,
    streams: Streams | None,
    epsilon: float,
) -> AlgorithmThree:
    """Return the printed client, with the random numbers and the buffer of ours."""

    def buffer(k: int) -> tuple[Rows, int]:
        if streams is None:
            return split.indices(i), SIZES[i]
        kept: Buffer | None = None
        for earlier in range(1, k + 1):
            kept, _ = streams.receive(i, earlier, kept)
        assert kept is not None
        return kept.rows, kept.seen

    def batches(k: int, size: int, s_i: int, tau: int) -> list[Rows]:
        return draw_batches(client_stream(SEED, i, k, BATCHES), size, [s_i] * tau)

    def for_variance(k: int, size: int) -> Rows:
        stream = client_stream(SEED, i, k, VARIANCE)
        return draw_batches(stream, size, [min(VARIANCE_SAMPLES, size)])[0]

    return AlgorithmThree(
        x.numpy(), y.numpy(), ETA, epsilon, SPEEDS[i], SECONDS[i], buffer, batches, for_variance
    )
