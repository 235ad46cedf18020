"""A controller that was made in Python, as a job's table."""

from dataclasses import dataclass, field

import pytest

from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.control.registry import CONTROLLERS, make_controller
from dynamite_fl.job.controller import controller_table
from tests.trainings import SETTINGS


@pytest.mark.parametrize("name", sorted(CONTROLLERS.keys() - SETTINGS.keys()))
def test_defaults_are_left_out_and_the_table_makes_the_controller_again(name: str) -> None:
    controller = make_controller(name, learning_rate=0.1)
    table = controller_table(controller)
    assert table == {"name": name}
    assert make_controller(**table, learning_rate=0.1) == controller


def test_settings_that_are_not_defaults_are_written() -> None:
    assert controller_table(FedAvg(batch_size=7)) == {"name": "fedavg", "batch_size": 7}


@dataclass(frozen=True, kw_only=True)
class Mine(FedAvg):
    """A controller of one's own, with settings that TOML has values for and others."""

    weights: tuple[float, ...] = (1.0, 2.0)
    choose: object = field(default_factory=dict)


def test_a_controller_of_ones_own_has_its_module_and_class() -> None:
    table = controller_table(Mine(weights=(3.0,), choose={1}))
    assert table == {"name": f"{__name__}:Mine", "made_in_python": ["weights", "choose"]}
