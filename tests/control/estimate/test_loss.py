import math

import numpy as np
import pytest

from dynamite_fl import Fleet
from dynamite_fl.control.estimate.loss import (
    LossEstimates,
    gradient_variance,
    known_means,
    loss_geometry,
    nothing_measured,
    update_loss,
    with_measured_variance,
)
from dynamite_fl.reports import Probe
from tests.control.simulator import probe, report

FLEET = Fleet(
    samples=[100, 300, 600], gradient_variance=[1, 2, 3], samples_per_second=1, comm_seconds=0
)


def after(estimates: LossEstimates, clients: list[int], given: Probe | None) -> LossEstimates:
    n = len(clients)
    one = report(
        clients,
        sizes=[5] * n,
        step_seconds=[1.0] * n,
        samples=[float(FLEET.samples[client]) for client in clients],
        probe=given,
    )
    return update_loss(estimates, one, 1000.0)


FIRST = after(
    nothing_measured(3),
    [0, 1, 2],
    probe(
        3,
        loss=[1, 2, 3],
        quadratic_bound=[10, 20, 5000],
        lipschitz=[1, 1, 4],
        smoothness=[4, np.nan, 1e-7],
        pl_constant=[0.1, 0.2, np.inf],
        divergence=[1, 2, 0],
        gradient_variance=[7, np.nan, 9],
    ),
)


def test_means_are_weighted_by_data() -> None:
    assert FIRST.loss == pytest.approx(0.1 + 0.6 + 1.8)
    assert FIRST.quadratic_bound == pytest.approx(1 + 6 + 600)  # the third is capped at 1000
    assert FIRST.lipschitz == pytest.approx(0.1 + 0.3 + 2.4)
    assert FIRST.smoothness == pytest.approx((400 + 600e-5) / 700)  # floored
    assert FIRST.pl_constant == pytest.approx((10 + 60) / 400)
    assert FIRST.divergence == pytest.approx(0.1 + 0.6)


def test_what_a_client_cannot_measure_stays_as_it_was() -> None:
    second = after(
        FIRST,
        [2, 0],
        probe(2, loss=[6, 2], smoothness=[np.nan, 8], divergence=[np.nan, np.nan]),
    )
    assert second.loss == pytest.approx((600 * 6 + 100 * 2) / 700)
    assert second.smoothness == pytest.approx((600 * 1e-5 + 100 * 8) / 700)
    assert second.divergence == pytest.approx((600 * 0 + 100 * 1) / 700)
    assert second.pl_constant == pytest.approx(0.1)  # client 2 never measured it


def test_absent_clients_have_no_weight() -> None:
    second = after(FIRST, [0, 1], probe(2, loss=[5, np.nan], divergence=[3, np.nan]))
    assert second.loss == 5
    assert second.divergence == 3


def test_without_measurements_the_estimates_stay() -> None:
    assert after(FIRST, [0, 1, 2], None) is FIRST
    nobody = after(FIRST, [0, 1], probe(2))
    assert (nobody.loss, nobody.divergence) == (FIRST.loss, FIRST.divergence)


def test_variances_are_guessed_until_they_are_measured() -> None:
    guess = FLEET.gradient_variance
    assert gradient_variance(nothing_measured(3), guess).tolist() == [1, 2, 3]
    assert gradient_variance(FIRST, guess).tolist() == [7, 8, 9]
    second = after(FIRST, [1], probe(1, gradient_variance=[4]))
    assert gradient_variance(second, guess).tolist() == [7, 4, 9]
    assert with_measured_variance(FLEET, second).gradient_variance.tolist() == [7, 4, 9]


def test_the_geometry_has_the_means_that_are_known() -> None:
    geometry = loss_geometry(known_means(FIRST), 0.5)
    assert geometry is not None
    assert geometry.loss_gap == FIRST.loss
    assert geometry.quadratic_bound == FIRST.quadratic_bound
    assert geometry.learning_rate * geometry.smoothness < 1
    steep = after(FIRST, [0], probe(1, loss=[1], smoothness=[50]))
    warned = loss_geometry(known_means(steep), 0.5)  # above 1/smoothness, yet no warning
    assert warned is not None
    assert warned.smoothness == 50


def test_geometry_needs_a_probe() -> None:
    assert loss_geometry(known_means(nothing_measured(3)), 0.1) is None


def test_one_client_never_shows_smoothness() -> None:
    alone = after(nothing_measured(3), [0], probe(1, loss=[2], pl_constant=[0.3], divergence=[0]))
    assert math.isnan(alone.smoothness)
    geometry = loss_geometry(known_means(alone), 0.1)
    assert geometry is not None
    assert geometry.smoothness == geometry.quadratic_bound == 10
