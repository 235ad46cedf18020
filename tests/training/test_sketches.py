"""Sketches of a probe's gradients in their place: what is estimated, sent and paid."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.sketch import sketch_size
from dynamite_fl.errors import JobError
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.collect import collect
from dynamite_fl.training.loop import begin, run_round
from tests.flower.fleet import CLIENTS, client
from tests.trainings import training


def replies(*, sketch: bool) -> list[Reply]:
    """Of five devices in the second round."""
    clients = [client(place) for place in range(CLIENTS)]
    weights = clients[0].model.first_weights
    found = []
    for place, each in enumerate(clients):
        order = Order(place, 1, weights, 3, 10 + place, 0.05, True, True, sketch=sketch)
        first = each.run_round(order, ClientState())
        found.append(
            each.run_round(replace(order, round_index=2, weights=weights + 0.01), first.state)
        )
    return found


def standard_deviation(vector: Tensor) -> float:
    """Of the square of a sketch's length, which is right on average: the signs are all chance.

    Sum b over its entries e_i with signs r_i is sum r_i e_i, whose square is sum e_i^2 and twice
    the products of all pairs, each of mean 0 and independent of each other.
    """
    m = sketch_size(vector.numel())
    squares = torch.nn.functional.pad(vector.double().square(), (0, -vector.numel() % m))
    sums = squares.view(-1, m)
    pairs = (sums.sum(0).square() - sums.square().sum(0)) / 2
    return math.sqrt(float(4 * pairs.sum()))


def test_estimates_are_those_of_whole_gradients_nearly() -> None:
    whole, short = replies(sketch=False), replies(sketch=True)
    samples = np.array([float(reply.samples) for reply in whole])
    gradients = [reply.gradient for reply in whole if reply.gradient is not None]
    assert len(gradients) == CLIENTS
    one, other = collect(whole, samples), collect(short, samples)
    mean = average(gradients, samples)
    for place, gradient in enumerate(gradients):
        assert torch.equal(whole[place].weights, short[place].weights)
        apart = abs(one.divergence[place] ** 2 - other.divergence[place] ** 2)
        assert 0 < apart < 4 * standard_deviation(gradient - mean)
        sent = short[place].gradient
        assert sent is not None
        assert sent.shape == (sketch_size(gradient.numel()),)
    for name in set(vars(one)) - {"divergence"}:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("model", ["softmax", "perceptron"])
def test_a_training_by_sketches(model: str) -> None:
    """It pays for what is sent, decides by it, and learns."""
    trained = training("dynamite", model=model, sketches=True)
    progress = begin(trained)
    start = trained.engine.evaluate(progress.weights, 0).accuracy
    progress, _ = run_round(trained, progress)
    before = progress.ledger
    progress, played = run_round(trained, progress)
    assert played is not None
    assert played.outcome.report.probe is not None
    assert np.isfinite(played.outcome.report.probe.divergence).all()
    d = progress.weights.numel()
    paid = progress.ledger.cost - before.cost - 0.002 * played.outcome.samples
    assert paid == pytest.approx(0.5 * (1 + sketch_size(d) / (2 * d)))
    while progress.ended is None:
        progress, _ = run_round(trained, progress)
    assert trained.engine.evaluate(progress.weights, 9).accuracy > start + 0.2


def test_the_job_says_so() -> None:
    job = load_training_job(None, ["training.probe_gradient=sketch"])
    made: Any = build_training(job)
    assert made.schedule.sketches
    assert made.engine.client(0).settings.only_sketches
    with pytest.raises(JobError, match=r"there is no training\.probe_gradient 'half'"):
        build_training(load_training_job(None, ["training.probe_gradient=half"]))
