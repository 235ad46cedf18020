"""Trainings on a quadratic loss, whose constants are known: estimates and bound against them."""

import math

import numpy as np
import pytest
import torch

from dynamite_fl import Limits
from dynamite_fl.control.registry import make_controller
from dynamite_fl.plan.bounds import gradient_noise, marginal_bound
from dynamite_fl.records import LossGeometry
from dynamite_fl.simulation.devices import Devices
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.task import Task
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.training import Schedule, Training
from tests.client.tasks import Line

N, EACH, CURVATURE, SPREAD, RATE = 4, 500, 1.5, 0.8, 0.02
CENTRES = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [3.0, 1.0]])


class Shift(Line):
    """w - x: the loss of a sample is then a quadratic around it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight - x


def samples() -> torch.Tensor:
    """Return the samples of all clients, around their centres."""
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(N * EACH, 2, generator=random) * SPREAD
    return CENTRES.repeat_interleave(EACH, 0) + noise


def quadratic() -> Task:
    """F_i(w) = CURVATURE/2 mean |w - x|^2 over samples around the client's centre.

    Its Hessian is CURVATURE everywhere, per-sample gradients vary by CURVATURE^2 2 SPREAD^2.
    """
    x = samples()
    return Task(
        name="quadratic",
        model=lambda: Shift((6.0, 6.0)),
        loss=lambda outputs, _: CURVATURE / 2 * outputs.square().sum(1),
        train_data=(x, torch.zeros(N * EACH)),
        test_data=(x, torch.zeros(N * EACH)),
    )


def trained(batch: int) -> Training:
    task = quadratic()
    engine = SimulatedEngine(
        task,
        Partition.from_owners(np.repeat(np.arange(N), EACH)),
        Devices(samples_per_second=[100.0] * N),
    )
    limits = Limits(
        rounds=12,
        deadline=math.inf,
        budget=math.inf,
        cost_per_sample=0,
        cost_per_round=0,
        max_local_steps=4,
    )
    controller = make_controller("dynamite", learning_rate=RATE, first_batch=batch)
    return Training(engine, controller, limits, Schedule(), engine.enroll(), RateSchedule(RATE))


def test_estimates_meet_the_true_constants() -> None:
    given = trained(batch=EACH)  # whole batches: no sampling error but that of the data itself
    for progress, _ in rounds(given, begin(given)):
        found = given.controller.describe(progress.control)
    means = torch.stack([part.mean(0) for part in torch.split(samples(), EACH)])
    optimum = means.mean(0)
    assert found["smoothness"] == pytest.approx(CURVATURE, rel=1e-3)
    apart = CURVATURE * (means - optimum).norm(dim=1).mean()
    assert found["divergence"] == pytest.approx(float(apart), rel=1e-3)
    # M_i comes from 64 samples of 2 coordinates each: chi-square of 126 degrees, four sigmas of
    # the mean over N clients.
    true_variance = CURVATURE**2 * 2 * SPREAD**2
    assert found["gradient_variance"] == pytest.approx(
        true_variance, rel=4 * math.sqrt(2 / 126 / N)
    )


def test_pl_constant_is_the_gradients_own() -> None:
    """c_i = |g_i|^2 / 2 F_i, worked out from the means and the spread of each client's data."""
    given = trained(batch=EACH)
    progress = begin(given)
    before = progress.weights
    for latest, _ in rounds(given, progress):
        if latest.ledger.rounds == 2:
            found = given.controller.describe(latest.control)
            break
        before = latest.weights  # the second round's probe is at the model that it begins with
    constants = []
    for part in torch.split(samples(), EACH):
        gradient = CURVATURE * (before - part.mean(0))
        loss = CURVATURE / 2 * (before - part).square().sum(1).mean()
        constants.append(float(gradient.square().sum() / (2 * loss)))
    assert found["pl_constant"] == pytest.approx(np.mean(constants), rel=1e-4)


def test_the_loss_stays_below_lemma_1() -> None:
    """With the true constants: curvature, the global gradient's PL constant, and F*."""
    optimum = samples().mean(0)
    least = float(CURVATURE / 2 * (optimum - samples()).square().sum(1).mean())
    means = torch.stack([part.mean(0) for part in torch.split(samples(), EACH)])
    apart = float(CURVATURE * (means - optimum).norm(dim=1).mean())
    given = trained(batch=20)
    progress = begin(given)
    gap = given.engine.evaluate(progress.weights, 0).loss - least
    for _, played in rounds(given, progress):
        assert played is not None
        assert played.evaluation is not None
        plan = played.plan
        # For equal quadratics the drifts cancel, so rho h^2 is an upper bound for any rho.
        geometry = LossGeometry(
            learning_rate=RATE,
            quadratic_bound=CURVATURE / 2,
            smoothness=CURVATURE,
            pl_constant=CURVATURE,
            divergence=apart,
            loss_gap=gap,
        )
        fleet = given.fleet
        noise = gradient_noise(fleet, plan.batch_sizes) * CURVATURE**2 * 2 * SPREAD**2
        bound = float(marginal_bound(geometry, 1, plan.local_steps, noise))
        gap = played.evaluation.loss - least
        # The bound is on the mean; one round's noise may exceed its own share a few times.
        slack = 4 * CURVATURE * RATE * math.sqrt(2 * float(noise) * max(bound, 1e-9))
        assert gap <= bound + slack
