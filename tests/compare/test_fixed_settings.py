"""The fixed settings of a job, against numbers worked by hand."""

import math
from dataclasses import replace

from dynamite_fl.compare.fixed_settings import FixedSettings
from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.compare.pattern_search import pattern_search
from dynamite_fl.records import Fleet, Limits

FLEET = Fleet(samples=[50, 90], gradient_variance=1, samples_per_second=100, comm_seconds=0.5)
LIMITS = Limits(
    deadline=10, budget=1e6, cost_per_sample=0.1, cost_per_round=0, rounds=10, max_local_steps=10
)


def test_batches_use_up_the_limits_and_their_halves_do_not() -> None:
    """The deadline leaves 0.5 s for each round: 1 step of 50 samples, 2 of 25, or 8 of 6."""
    settings = FixedSettings(FLEET, LIMITS)
    assert settings.at((-4, 0, 0)) == FixedSetting(1, 50, 0.1)
    assert settings.at((-4, 1, 0)) == FixedSetting(2, 25, 0.1)
    assert settings.at((0, 3, 0)) == FixedSetting(8, 6, 1.0)
    assert settings.at((0, 3, 1)) == FixedSetting(8, 3, 1.0)
    assert settings.at((0, 3, 3)) is None  # less than one sample
    assert settings.at((0, 0, -1)) == FixedSetting(1, 90, 1.0)  # all data, in fewer rounds
    assert settings.at((0, 0, -5)) == FixedSetting(1, 90, 1.0)


def test_the_most_local_steps_take_the_place_of_the_next_power_of_two() -> None:
    settings = FixedSettings(FLEET, LIMITS)
    steps = [settings.at((0, doublings, 0)) for doublings in range(-1, 6)]
    assert [None if s is None else s.local_steps for s in steps] == [None, 1, 2, 4, 8, 10, None]
    only_one = FixedSettings(FLEET, replace(LIMITS, max_local_steps=1))
    assert only_one.at((0, 0, 0)) == FixedSetting(1, 50, 1.0)
    assert only_one.at((0, 1, 0)) is None


def test_fewer_rounds_are_assumed_where_not_one_sample_fits_all() -> None:
    """A round takes 0.51 s at least, so one of nine fits."""
    hurried = FixedSettings(FLEET, replace(LIMITS, deadline=0.52, rounds=9))
    assert hurried.at((0, 0, 0)) == FixedSetting(1, 2, 1.0)
    assert hurried.at((0, 2, 0)) is None  # four steps of one sample take 0.54 s


def test_without_a_number_of_rounds_as_many_are_assumed_as_fedavg_has() -> None:
    """FedAvg's round takes 0.5 + 1.2 s: five of them leave 1.5 s for each."""
    settings = FixedSettings(FLEET, replace(LIMITS, rounds=None))
    assert settings.at((0, 1, 0)) == FixedSetting(2, 75, 1.0)


def test_the_search_finds_the_best_setting_of_a_model_of_training() -> None:
    """The best rate x steps is 4, noise grows with rate / batch, and a rate above 1 fails."""
    space = FixedSettings(FLEET, replace(LIMITS, max_local_steps=64, deadline=60))
    tried: dict[FixedSetting, float] = {}

    def loss(setting: FixedSetting | None) -> float:
        if setting is None or setting.learning_rate is None or setting.learning_rate > 1:
            return float("inf")
        way = setting.learning_rate * setting.local_steps
        tried[setting] = math.log(way / 4) ** 2 + 9 * setting.learning_rate / setting.batch_size
        return tried[setting]

    best = pattern_search(
        space.pattern(place=-2), lambda points: [loss(space.at(point)) for point in points]
    )
    searched, found = len(tried), loss(space.at(best))
    every = [(p, d, h) for p in range(-16, 5) for d in range(8) for h in range(-3, 8)]
    assert found <= 0.05 + min(loss(space.at(point)) for point in every)
    assert searched < 40 < len(tried)
