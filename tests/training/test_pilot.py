"""The trial that measures what an offline plan needs."""

import numpy as np
import pytest

from dynamite_fl.errors import InvalidInput
from dynamite_fl.training.pilot import pilot
from tests.trainings import RATE, training


def test_the_settings_make_an_offline_plan_and_leave_no_trace() -> None:
    given = training("fedavg")
    settings = pilot(given.engine, given.limits, RATE, trial_rounds=4)
    assert settings["geometry"].learning_rate == RATE
    assert settings["geometry"].loss_gap > 0
    assert settings["gradient_variance"].shape == (len(given.fleet),)
    assert np.isfinite(settings["gradient_variance"]).all()
    assert given.engine.states == {}


def test_one_round_is_too_short() -> None:
    given = training("fedavg")
    with pytest.raises(InvalidInput, match="1 pilot rounds show too little of the loss: use more"):
        pilot(given.engine, given.limits, RATE, trial_rounds=1)
