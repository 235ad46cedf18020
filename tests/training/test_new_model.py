from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from dynamite_fl.errors import Diverged
from dynamite_fl.training.averaging import Median
from dynamite_fl.training.engine import RoundOutcome
from dynamite_fl.training.loop import begin, run_round
from dynamite_fl.training.new_model import average_updates, take_server_step
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.server_optimizer import FedAvgM
from dynamite_fl.training.server_step import ServerState
from dynamite_fl.training.training import Training
from tests.trainings import training


def first_round(trained: Training) -> tuple[Progress, RoundOutcome]:
    """Return the progress before the first round, and the outcome of that round."""
    start = begin(trained)
    return start, run_round(trained, start)[1].outcome


def test_clients_are_weighted_by_their_samples() -> None:
    trained = training("fedavg")
    start, outcome = first_round(trained)
    average = average_updates(trained, start, outcome)
    assert average.averaged is not None
    shares = torch.from_numpy(outcome.report.samples / outcome.report.samples.sum())
    expected = shares @ torch.stack(outcome.updates).double()
    assert torch.allclose(average.averaged.average.double(), expected, atol=1e-6)
    assert (average.refused, average.are_all_refused, average.private) == (0, False, None)


@pytest.mark.parametrize("averaging", [None, Median()])
def test_invalid_updates_are_left_out_and_counted(averaging: Median | None) -> None:
    trained = training("fedavg")
    if averaging is not None:
        trained = replace(trained, averaging=averaging)
    start, outcome = first_round(trained)
    bad = torch.full_like(start.weights, torch.nan)
    average = average_updates(
        trained, start, replace(outcome, updates=[bad, bad, *outcome.updates[2:]])
    )
    assert average.averaged is not None
    assert torch.isfinite(average.averaged.average).all()
    assert [update is bad for update in average.averaged.updates] == [False] * 3
    assert (average.refused, average.are_all_refused) == (2, False)
    average = average_updates(trained, start, replace(outcome, updates=[bad] * 5))
    assert average.averaged is None
    assert (average.refused, average.are_all_refused) == (5, True)


def test_a_round_without_updates_has_no_average_but_refuses_nothing() -> None:
    trained = training("fedavg", devices={"availability": 1e-9})
    average = average_updates(trained, *first_round(trained))
    assert average.averaged is None
    assert (average.refused, average.are_all_refused) == (0, False)


def test_the_controller_sees_the_average_whatever_the_server_makes_of_it() -> None:
    plain, other = (training("dynamite-feedback", server=name) for name in ("average", "fedadam"))
    (left, one), (right, two) = (run_round(given, begin(given)) for given in (plain, other))
    assert not torch.equal(left.weights, right.weights)
    path, same = one.outcome.report.path, two.outcome.report.path
    assert path is not None
    assert same is not None
    assert np.array_equal(path.first_half, same.first_half)
    assert np.array_equal(path.second_half, same.second_half)


def test_the_server_carries_its_momentum_from_round_to_round() -> None:
    trained = training("fedavg", server="fedavgm")
    progress = begin(trained)
    weights, velocity = progress.weights.double(), torch.zeros_like(progress.weights).double()
    for _ in range(4):
        progress, played = run_round(trained, progress)
        samples = torch.from_numpy(played.outcome.report.samples).double()
        average = (samples / samples.sum()) @ torch.stack(played.outcome.updates).double()
        velocity = 0.9 * velocity + (weights - average)
        weights = weights - velocity
        assert torch.allclose(progress.weights.double(), weights, atol=1e-6)
        weights = progress.weights.double()  # so that rounding does not add up


def moved_alike(start: Progress, movement: Tensor) -> Progress:
    """Return the progress as if the last round had made the same movement."""
    return replace(start, server=ServerState(last_movement=movement))


def test_the_last_round_is_not_extrapolated() -> None:
    trained = training("fedavg", server="extrapolation")
    start, outcome = first_round(trained)
    averaged = average_updates(trained, start, outcome).averaged
    assert averaged is not None
    start = moved_alike(start, averaged.movement)
    last = replace(start, ended="deadline")
    assert torch.equal(take_server_step(trained, last, averaged).weights, averaged.average)
    further = take_server_step(trained, start, averaged)
    assert further.server.factor > 1
    assert not torch.equal(further.weights, averaged.average)


def test_the_report_says_how_much_clients_differ() -> None:
    trained = training("dynamite-feedback")
    start, outcome = first_round(trained)
    average = average_updates(trained, start, outcome)
    assert average.report.path is not None
    movements = torch.stack([start.weights - update for update in outcome.updates]).double()
    shares = torch.from_numpy(outcome.report.samples / outcome.report.samples.sum())
    expected = shares @ movements.square().sum(dim=1) / (shares @ movements).square().sum()
    assert average.report.path.disagreement == pytest.approx(float(expected), rel=1e-5)


def test_a_round_that_a_limit_makes_the_last_one_is_not_extrapolated() -> None:
    """The plan has many more rounds, but the first round has used up the deadline."""
    trained = training("fedavg", server="extrapolation")
    start, outcome = first_round(trained)
    averaged = average_updates(trained, start, outcome).averaged
    assert averaged is not None
    start = moved_alike(start, averaged.movement)
    short = replace(trained, limits=replace(trained.limits, deadline=1.001 * outcome.seconds))
    progress, _ = run_round(short, start)
    assert (progress.ended, start.plan.rounds > 1) == ("deadline", True)
    assert torch.equal(progress.weights, averaged.average)


def test_without_an_update_the_server_takes_no_step() -> None:
    trained = training("fedavg", server="fedavgm", devices={"availability": 1e-9})
    start = begin(trained)
    state = ServerState(first_moment=torch.ones_like(start.weights))
    progress, _ = run_round(trained, replace(start, server=state))
    assert torch.equal(progress.weights, start.weights)
    assert progress.server is state


def test_a_server_whose_step_leaves_all_numbers_ends_the_training() -> None:
    trained = replace(training("fedavg"), server=FedAvgM(learning_rate=10.0))
    start = begin(trained)
    state = ServerState(first_moment=torch.full_like(start.weights, 3e38))
    with pytest.raises(Diverged, match=r"in round 1 the step .* smaller server.learning_rate"):
        run_round(trained, replace(start, server=state))
