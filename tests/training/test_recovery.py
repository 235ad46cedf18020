import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from dynamite_fl.control.estimate.rate import RateEstimate
from dynamite_fl.errors import Diverged
from dynamite_fl.records import LearningRateWarning
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.engine import Evaluation
from dynamite_fl.training.guard import Guard
from dynamite_fl.training.ledger import Ledger
from dynamite_fl.training.loop import begin, rounds, run_round
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.rate_choice import RateChoice
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.recovery import (
    is_measured,
    judge_last_model,
    judge_model,
    return_to_good_model,
)
from dynamite_fl.training.server_step import ServerState
from dynamite_fl.training.training import Training
from tests.training.private import private_training
from tests.trainings import training

WIDE = {"deadline": 1e9, "budget": 1e9}
LEARNED = Guard(first_loss=2.3, recent_loss=0.5, best_loss=0.5)


def after_one_round(trained: Training) -> tuple[Progress, RoundReport]:
    progress, played = run_round(trained, begin(trained))
    return progress, played.outcome.report


def evaluate(trained: Training, progress: Progress) -> Evaluation:
    return trained.engine.evaluate(progress.weights, progress.ledger.rounds)


@pytest.fixture
def fixed_rate() -> Training:
    return training("fedavg")


@pytest.fixture
def chosen_rate(fixed_rate: Training) -> Training:
    return replace(fixed_rate, learning_rate=None)


def test_a_model_is_judged_by_the_losses_that_clients_measured(
    fixed_rate: Training, chosen_rate: Training
) -> None:
    progress, report = after_one_round(fixed_rate)
    bad = replace(report, first_losses=np.full(5, 2.3))
    progress = replace(progress, guard=replace(LEARNED, good_weights=progress.weights))
    after, is_ruined = judge_model(chosen_rate, progress, bad)
    assert is_ruined
    judged = []
    for _ in range(10):  # a rate that the job gives may raise the loss for some rounds
        progress, is_ruined = judge_model(fixed_rate, progress, bad)
        judged.append(is_ruined)
    assert judged == [False] * 9 + [True]
    ((loss, variance),) = after.guard.doubtful
    assert loss == pytest.approx(2.3)
    assert variance == pytest.approx(0.0, abs=1e-9)


def test_the_loss_of_new_samples_does_not_ruin_a_model(chosen_rate: Training) -> None:
    progress, report = after_one_round(chosen_rate)
    progress = replace(progress, guard=replace(LEARNED, good_weights=progress.weights))
    bad = replace(report, first_losses=np.full(5, 2.3))
    assert judge_model(chosen_rate, progress, bad)[1]
    assert not judge_model(chosen_rate, progress, replace(bad, samples=2 * report.samples))[1]
    one_of_five = np.array([9.0, 1, 1, 1, 1]) * report.samples  # who may lie
    assert judge_model(chosen_rate, progress, replace(bad, samples=one_of_five))[1]


def test_nothing_is_judged_without_losses_or_with_privacy(fixed_rate: Training) -> None:
    progress, report = after_one_round(fixed_rate)
    absent = replace(report, present=np.zeros(5, dtype=bool))
    unmeasured = replace(report, first_losses=np.empty(0))
    for unknown in (absent, unmeasured):
        assert judge_model(fixed_rate, progress, unknown) == (progress, False)
    assert judge_model(private_training(), progress, report) == (progress, False)


def test_a_model_that_was_judged_already_is_not_judged_again(fixed_rate: Training) -> None:
    progress, report = after_one_round(fixed_rate)
    judged = replace(progress, guard=replace(LEARNED, is_judged=True))
    ruined = replace(report, first_losses=np.full(report.first_losses.shape, math.nan))
    after, is_ruined = judge_model(fixed_rate, judged, ruined)
    assert not is_ruined
    assert (after.guard.is_judged, after.guard.best_loss) == (False, LEARNED.best_loss)
    assert judge_model(fixed_rate, after, ruined)[1]


def test_a_loss_is_measured_if_somebody_is_there(fixed_rate: Training) -> None:
    _, report = after_one_round(fixed_rate)
    assert is_measured(report)
    assert not is_measured(replace(report, present=np.zeros_like(report.present)))
    assert not is_measured(replace(report, first_losses=np.empty(0)))


def test_learning_nothing_is_a_ruin_only_if_the_rate_is_chosen(
    fixed_rate: Training, chosen_rate: Training
) -> None:
    progress, report = after_one_round(fixed_rate)
    idle = Guard(first_loss=2.3, recent_loss=2.3, best_loss=2.3, idle_rounds=4)
    progress, report = replace(progress, guard=idle), replace(report, first_losses=np.full(5, 2.3))
    assert not judge_model(fixed_rate, progress, report)[1]
    assert judge_model(chosen_rate, progress, report)[1]


def test_learning_nothing_in_five_rounds_is_a_stall_twice(chosen_rate: Training) -> None:
    progress, report = after_one_round(chosen_rate)
    report = replace(report, first_losses=np.full(5, 2.3))
    idle = Guard(first_loss=2.3, recent_loss=2.3, best_loss=2.3, good_weights=progress.weights)
    progress, stalled = replace(progress, guard=idle), []
    for number in range(1, 21):
        progress, is_ruined = judge_model(chosen_rate, progress, report)
        if is_ruined:
            stalled.append(number)
            progress, _ = return_to_good_model(chosen_rate, progress, report, is_ruined=True)
    assert stalled == [5, 10]  # after that, the loss is taken for the best there is
    assert (progress.guard.stalls, progress.guard.idle_rounds) == (2, 10)


def test_a_ruin_after_some_idle_rounds_at_a_given_rate_is_no_stall(fixed_rate: Training) -> None:
    progress, report = after_one_round(fixed_rate)
    idle = replace(LEARNED, good_weights=progress.weights, idle_rounds=9)
    progress = replace(progress, guard=idle)
    back, given_up = return_to_good_model(fixed_rate, progress, report, is_ruined=True)
    assert back.guard.stalls == 0
    assert given_up.ruining_rate == progress.rate.last


def test_a_stall_at_a_given_rate_is_searched_once_and_is_an_error_if_the_rate_is_large(
    fixed_rate: Training,
) -> None:
    progress, report = after_one_round(fixed_rate)
    first = torch.ones_like(progress.weights)
    near = replace(progress, weights=1.4 * first)
    progress = replace(progress, weights=1.6 * first)
    idle = Guard(good_weights=first, first_loss=2.3, recent_loss=2.3, best_loss=2.3, idle_rounds=9)
    progress, report = replace(progress, guard=idle), replace(report, first_losses=np.full(5, 2.3))
    assert not judge_model(fixed_rate, replace(near, guard=idle), report)[1]
    progress, is_ruined = judge_model(fixed_rate, progress, report)
    assert is_ruined
    back, given_up = return_to_good_model(fixed_rate, progress, report, is_ruined=True)
    assert back.weights is first
    assert (back.guard.stalls, back.guard.is_back) == (1, True)
    assert given_up.ruining_rate is None  # it may be too small as well
    again = replace(back, guard=replace(back.guard, is_back=False, idle_rounds=10))
    for stable, is_large in ((0.06, False), (0.04, True)):  # the rate is 0.05
        known = RateChoice(RateEstimate(log_stable=math.log(stable)), last=0.05)
        searched = replace(again, rate=known)
        if is_large:
            with pytest.raises(Diverged, match=r"set training\.learning_rate to 0\.02 or less"):
                judge_model(fixed_rate, searched, report)
            learned = replace(searched, guard=replace(again.guard, best_loss=0.5))
            assert not judge_model(fixed_rate, learned, report)[1]
        else:
            assert not judge_model(fixed_rate, searched, report)[1]


def test_a_return_names_the_rate_of_the_round_that_ruined_the_model(fixed_rate: Training) -> None:
    progress, report = after_one_round(fixed_rate)
    good = torch.zeros_like(progress.weights)
    progress = replace(
        progress, guard=replace(LEARNED, good_weights=good), rate=RateChoice(last=0.7)
    )
    for is_ruined, rate in ((True, 0.7), (False, report.learning_rate)):
        after, given_up = return_to_good_model(fixed_rate, progress, report, is_ruined=is_ruined)
        assert after.weights is good
        assert (after.guard.returns, after.guard.is_back) == (1, True)
        assert (given_up.path, given_up.probe, given_up.ruining_rate) == (None, None, rate)


def test_the_training_ends_after_too_many_returns(
    fixed_rate: Training, chosen_rate: Training
) -> None:
    for trained, most, advice in (
        (fixed_rate, 2, r"set training\.learning_rate to 0\.006"),  # half of a quarter of 0.05
        (chosen_rate, 8, "though the rate was lowered: check the data"),
    ):
        progress, report = after_one_round(trained)
        for returns in range(1, most):
            progress, _ = return_to_good_model(trained, progress, report, is_ruined=False)
            assert progress.guard.returns == returns
        with pytest.raises(Diverged, match=advice):
            return_to_good_model(trained, progress, report, is_ruined=False)


def test_a_training_that_leaves_all_numbers_ends() -> None:
    trained = training("fedavg", model="perceptron", rate=RateSchedule(1e30))
    with pytest.raises(
        Diverged, match=r"at the learning rate 1e\+30 .* set training.learning_rate"
    ):
        list(rounds(trained, begin(trained)))


def last_models(trained: Training, guard: Guard) -> tuple[Progress, Progress]:
    """Return the progress at the last good model, which is the first, and at a ruined one."""
    start = begin(trained)
    good = replace(start, guard=replace(guard, good_weights=start.weights), ledger=Ledger(rounds=9))
    noise = torch.randn(start.weights.shape, generator=torch.Generator().manual_seed(0))
    return good, replace(good, weights=1e3 * noise)


def test_a_ruined_last_model_gives_way_to_the_last_good_one(fixed_rate: Training) -> None:
    good, ruined = last_models(fixed_rate, LEARNED)
    progress, evaluation, is_ruined = judge_last_model(
        fixed_rate, ruined, evaluate(fixed_rate, ruined)
    )
    assert is_ruined
    assert torch.equal(progress.weights, good.weights)
    assert evaluation.loss == evaluate(fixed_rate, good).loss
    before = evaluate(fixed_rate, good)
    assert judge_last_model(fixed_rate, good, before) == (good, before, False)


def test_a_last_model_that_is_ruined_after_nothing_was_learned_is_an_error(
    fixed_rate: Training,
) -> None:
    nothing = replace(LEARNED, recent_loss=2.3, best_loss=2.3)
    _, ruined = last_models(fixed_rate, nothing)
    ruined = replace(ruined, rate=RateChoice(RateEstimate(log_stable=math.log(0.3)), last=0.5))
    with pytest.raises(Diverged, match=r"rate 0\.5 .* training.learning_rate to 0\.15 or less"):
        judge_last_model(fixed_rate, ruined, evaluate(fixed_rate, ruined))
    back = replace(ruined, guard=replace(ruined.guard, is_back=True))
    with pytest.raises(Diverged, match=r"rate 0\.5 "):
        judge_last_model(fixed_rate, back, evaluate(fixed_rate, back))


def test_before_anything_is_learned_the_test_loss_may_rise_by_half(fixed_rate: Training) -> None:
    nothing = replace(LEARNED, recent_loss=2.3, best_loss=2.3)
    good, _ = last_models(fixed_rate, nothing)
    loss = evaluate(fixed_rate, good).loss
    risen = replace(evaluate(fixed_rate, good), loss=1.49 * loss)
    assert judge_last_model(fixed_rate, good, risen) == (good, risen, False)
    with pytest.raises(Diverged):
        judge_last_model(fixed_rate, good, replace(risen, loss=1.51 * loss))


def test_a_model_that_was_ruined_on_the_way_is_a_warning_if_the_rate_is_given(
    fixed_rate: Training,
) -> None:
    good, _ = last_models(fixed_rate, LEARNED)
    searched = RateChoice(RateEstimate(log_stable=math.log(0.3)), last=1e-3, largest=0.7)
    with pytest.warns(
        LearningRateWarning, match=r"rate 0\.7 .*ruined on the way.* to 0\.15 or less"
    ):
        judge_last_model(fixed_rate, replace(good, rate=searched), evaluate(fixed_rate, good))


def test_a_loss_that_has_hardly_fallen_is_a_warning_if_the_rate_is_given(
    fixed_rate: Training, chosen_rate: Training
) -> None:
    idle = replace(LEARNED, idle_rounds=10)
    good, _ = last_models(fixed_rate, idle)
    good, before = (
        replace(good, rate=RateChoice(last=1e-9, largest=1e-5)),
        evaluate(fixed_rate, good),
    )
    with pytest.warns(LearningRateWarning, match=r"fallen in 9 rounds: the learning rate 1e-05"):
        judge_last_model(fixed_rate, good, before)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge_last_model(chosen_rate, good, before)
        patient = replace(good, guard=replace(good.guard, idle_rounds=9))
        judge_last_model(fixed_rate, patient, before)


@pytest.mark.parametrize("count", [12, 13, 20])
def test_a_rate_that_is_too_small_is_a_warning_whenever_the_training_ends(count: int) -> None:
    trained = training("fedavg", rate=RateSchedule(1e-7), limits={**WIDE, "rounds": count})
    with pytest.warns(LearningRateWarning, match="seems too small"):
        played = list(rounds(trained, begin(trained)))
    assert len(played) == count


def test_a_private_training_that_ends_worse_than_it_began_is_a_warning() -> None:
    """Clients' losses are not known to the server, but test data is not protected."""
    trained = private_training()
    progress, _ = after_one_round(trained)
    first = trained.engine.evaluate(trained.engine.first_weights(), 1)
    with pytest.warns(LearningRateWarning, match=r"was 2.* and is 4.* the learning rate 0.05 or"):
        judge_last_model(trained, progress, replace(first, loss=4.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        better = replace(first, loss=first.loss - 0.1)
        assert judge_last_model(trained, progress, better) == (progress, better, False)


def test_a_return_takes_the_servers_factor_back(chosen_rate: Training) -> None:
    progress, report = after_one_round(chosen_rate)
    far = replace(
        LEARNED,
        good_weights=progress.weights,
        good_server=ServerState(factor=3.0, last_movement=progress.weights),
    )
    back, _ = return_to_good_model(
        chosen_rate, replace(progress, guard=far), report, is_ruined=True
    )
    assert back.server.factor == 1.0
    assert (
        back.server.last_movement is None
    )  # the next rounds are shorter, so none compares with it
