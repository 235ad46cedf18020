"""What clients measured, put together for the controller: whole gradients and sketches of them."""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.client.messages import ClientState, Order, Reply
from dynamite_fl.client.probe import ProbeFigures
from dynamite_fl.client.sketch import sketch_size
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.collect import collect
from tests.trainings import training

CLIENTS = 5


def replies(*, sketch: bool) -> list[Reply]:
    """Return the replies of five devices in their second round."""
    engine = training(model="perceptron").engine
    assert isinstance(engine, SimulatedEngine)
    clients = [engine.client(place) for place in range(CLIENTS)]
    weights = clients[0].model.first_weights
    second = []
    for place, client in enumerate(clients):
        order = Order(place, 1, weights, 3, 10 + place, 0.05, True, True, sketch=sketch)
        first = client.run_round(order, ClientState())
        second.append(
            client.run_round(replace(order, round_index=2, weights=weights + 0.01), first.state)
        )
    return second


def standard_deviation(vector: Tensor) -> float:
    """Return the standard deviation of the square of a sketch's length.

    An entry of the sketch is a sum of entries e_i with random signs r_i. Its square is the sum of
    all e_i^2 plus twice the products of all pairs, which have mean 0 and are uncorrelated.
    """
    m = sketch_size(vector.numel())
    squares = torch.nn.functional.pad(vector.double().square(), (0, -vector.numel() % m))
    sums = squares.view(-1, m)
    pairs = (sums.sum(0).square() - sums.square().sum(0)) / 2
    return math.sqrt(float(4 * pairs.sum()))


def test_estimates_from_sketches_are_close_to_those_from_whole_gradients() -> None:
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


def reply(gradient: list[float] | None, loss: float, variance: float | None) -> Reply:
    figures = ProbeFigures(
        loss=loss, quadratic_bound=1, lipschitz=1, smoothness=1, pl_constant=1, drift=math.nan
    )
    return Reply(
        weights=torch.zeros(2),
        samples=1,
        state=ClientState(),
        figures=figures,
        gradient=None if gradient is None else torch.tensor(gradient),
        gradient_variance=variance,
        measured_samples=0,
    )


def test_columns_and_divergence_by_hand() -> None:
    """Gradients (0, 0) and (4, 0), weighted 3 to 1, have the mean (1, 0)."""
    replies = [reply([0.0, 0.0], 0.5, 2.0), None, reply([4.0, 0.0], 0.7, None)]
    probe = collect(replies, np.array([3.0, 5.0, 1.0]))
    np.testing.assert_array_equal(probe.loss, [0.5, np.nan, 0.7])
    np.testing.assert_array_equal(probe.gradient_variance, [2.0, np.nan, np.nan])
    np.testing.assert_array_equal(probe.divergence, [1.0, np.nan, 3.0])


def test_without_any_reply_nothing_is_known() -> None:
    probe = collect([None, None], np.array([1.0, 1.0]))
    assert np.isnan(probe.loss).all()
    assert np.isnan(probe.divergence).all()
