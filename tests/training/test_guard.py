import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dynamite_fl.training.guard import Guard, after_return, judge, mean_loss
from dynamite_fl.training.server_step import ServerState

SERVER = ServerState()


def model(number: int) -> Tensor:
    return torch.tensor([float(number)])


def judged(losses: list[float], error: float = 0.05) -> tuple[Guard, list[int]]:
    """Return the guard after models 0, 1, ... of these losses, and the numbers of ruined ones."""
    guard, ruined = Guard(), []
    for number, loss in enumerate(losses):
        guard, is_ruined = judge(guard, loss, error**2, model(number), SERVER)
        if is_ruined:
            ruined.append(number)
    return guard, ruined


def good_model(guard: Guard) -> float:
    assert guard.good_weights is not None
    return float(guard.good_weights[0])


def test_a_falling_loss_is_good() -> None:
    guard, ruined = judged([2.3, 1.5, 1.0, 0.7, 0.8, 0.6])
    assert ruined == []
    assert good_model(guard) == 5.0
    assert guard.has_learned


def test_a_model_that_has_lost_half_of_what_was_gained_is_ruined() -> None:
    """The mean of recent losses falls to 1.1, and the limit is half-way back to 2.3."""
    guard, ruined = judged([2.3, 1.0, 0.5, 0.4, 2.3])
    assert ruined == [4]
    assert good_model(guard) == 3.0


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_model_that_leaves_all_numbers_is_ruined(loss: float) -> None:
    assert judged([2.3, 1.0, loss])[1] == [2]


def test_losses_that_vary_much_decide_after_some_rounds() -> None:
    """The limit is 1.72. Of a loss of 2.3 with an error of 0.4, 3 errors are 1.2, 0.85, ..."""
    guard, ruined = judged([2.3, 1.0, 0.5, 2.3], error=0.4)
    assert ruined == []
    assert len(guard.doubtful) == 1
    _, ruined = judged([2.3, 1.0, 0.5, *[2.3] * 9], error=0.4)
    limit = Guard(first_loss=2.3, best_loss=0.7 * (0.7 * 2.3 + 0.3 * 1.0) + 0.3 * 0.5).limit
    needed = math.ceil((3 * 0.4 / (2.3 - limit)) ** 2)
    assert ruined[0] == 2 + needed


def test_one_good_loss_ends_all_doubt() -> None:
    guard, ruined = judged([2.3, 1.0, 0.5, 2.0, 0.6], error=0.4)
    assert (ruined, guard.doubtful) == ([], ())


def test_after_a_return_the_same_model_with_a_higher_loss_shows_new_data() -> None:
    guard, ruined = judged([2.3, 1.0, 0.5, 2.3])
    assert ruined == [3]
    guard = after_return(guard, is_stalled=False)
    assert (guard.returns, guard.is_back) == (1, True)
    assert guard.good_weights is not None
    guard, is_ruined = judge(guard, 2.2, 0.01, guard.good_weights, SERVER)
    assert not is_ruined
    assert guard.best_loss == 2.2


def test_a_higher_loss_with_new_data_is_excused() -> None:
    guard, _ = judged([2.3, 1.0, 0.5])
    assert judge(guard, 2.6, 0.01, model(3), SERVER, growth=1.04)[1]
    burst, is_ruined = judge(guard, 2.6, 0.01, model(3), SERVER, growth=2.0)
    assert not is_ruined
    assert (burst.best_loss, burst.first_loss, burst.growth) == (2.6, 2.6, 1.0)
    assert good_model(burst) == 2.0
    learned, is_ruined = judge(burst, 2.0, 0.01, model(4), SERVER)
    assert (is_ruined, good_model(learned)) == (False, 4.0)
    assert judge(learned, 3.0, 0.01, model(5), SERVER)[1]


def test_new_data_counts_even_if_it_comes_little_by_little() -> None:
    guard, _ = judged([2.3, 1.0, 0.5])
    for _ in range(4):
        guard, is_ruined = judge(guard, 0.5, 0.01, model(3), SERVER, growth=1.01)
        assert not is_ruined
    assert guard.growth == pytest.approx(1.01**4)
    guard, is_ruined = judge(guard, 2.6, 0.01, model(3), SERVER, growth=1.01)
    assert (is_ruined, guard.growth) == (False, 1.0)


@pytest.mark.parametrize("loss", [7.0, 1e6, math.inf, math.nan])
def test_new_data_does_not_excuse_an_absurd_loss(loss: float) -> None:
    """More than three times the first loss is absurd."""
    guard, _ = judged([2.3, 1.0, 0.5])
    after, is_ruined = judge(guard, loss, 0.01, model(3), SERVER, growth=2.0)
    assert (is_ruined, after.first_loss) == (True, 2.3)


def test_returns_in_a_row_are_counted_until_a_new_model_is_good() -> None:
    guard, _ = judged([2.3, 1.0, 0.5])
    for returns in (1, 2):
        guard, is_ruined = judge(guard, math.nan, math.nan, model(9), SERVER)
        assert is_ruined
        guard = after_return(guard, is_stalled=False)
        assert (guard.returns, guard.stalls) == (returns, 0)
        guard, is_ruined = judge(guard, 0.5, 0.0025, model(2), SERVER)
        assert not is_ruined
    guard, _ = judge(guard, 0.5, 0.0025, model(3), SERVER)
    assert (guard.returns, good_model(guard)) == (0, 3.0)


def test_rounds_that_learn_nothing_are_counted_until_a_return_or_a_lower_loss() -> None:
    guard, ruined = judged([2.3] * 6)
    assert (ruined, guard.idle_rounds, good_model(guard)) == ([], 5, 0.0)
    back = after_return(guard, is_stalled=True)
    assert (back.idle_rounds, back.stalls) == (0, 1)
    for _ in range(9):
        guard, _ = judge(guard, 0.5, 0.0025, model(7), SERVER)
    assert (guard.idle_rounds, good_model(guard)) == (0, 7.0)


def test_the_loss_of_one_client_does_not_decide() -> None:
    losses, samples = np.array([1.0, 1.0, 1e30]), np.full(3, 10.0)
    assert mean_loss(losses, samples)[0] == pytest.approx(5 / 3)  # it counts as 3
    mean, variance = mean_loss(np.array([1.0, 1.0, np.nan]), samples)
    assert (mean, variance) == (1.0, 0.0)
    assert math.isnan(mean_loss(np.array([1.0, np.nan, np.inf]), samples)[0])


def test_the_variance_of_the_mean_is_that_of_independent_clients() -> None:
    """Over many draws, the estimate is right on average: its error falls with their number."""
    random = np.random.default_rng(0)
    draws = [mean_loss(random.uniform(1, 2, 8), np.full(8, 5.0)) for _ in range(4000)]
    true = 1 / 12 / 8
    assert np.mean([variance for _, variance in draws]) == pytest.approx(true, rel=0.05)
    assert np.var([mean for mean, _ in draws]) == pytest.approx(true, rel=0.1)


def test_a_single_client_is_believed_with_reserve() -> None:
    assert mean_loss(np.array([2.0]), np.array([5.0])) == (2.0, 0.25)
