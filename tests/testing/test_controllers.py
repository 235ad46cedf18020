"""Every controller of this package passes the checks that are shipped to authors of their own."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from dynamite_fl import Fleet, Plan
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.control.registry import CONTROLLERS, make_controller
from dynamite_fl.records import IntArray, Limits
from dynamite_fl.testing import CHECKS, check_controller
from tests.trainings import SETTINGS


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", CONTROLLERS)
def test_controllers(name: str, check: str) -> None:
    CHECKS[check](make_controller(name, learning_rate=0.05, **SETTINGS.get(name, {})))


@dataclass(frozen=True, kw_only=True)
class Counting(FedAvg):
    """FedAvg that keeps what it learns in itself, not in its state."""

    calls: list[int] = field(default_factory=list)

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, None]:
        self.calls.append(1)
        return FedAvg(batch_size=1 + len(self.calls)).start(fleet, limits, cohort)


def test_a_controller_that_remembers_outside_its_state_fails() -> None:
    with pytest.raises(AssertionError, match="two trainings with the same seed differ"):
        check_controller(Counting())


@dataclass(frozen=True, kw_only=True)
class Greedy(FedAvg):
    """FedAvg that ignores how many samples clients have."""

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, None]:
        plan, _ = FedAvg(local_steps=1).start(fleet, limits, cohort)
        return replace(plan, batch_sizes=1 + fleet.samples[cohort].astype(np.int64)), None


def test_batch_sizes_above_the_samples_fail() -> None:
    with pytest.raises(AssertionError, match="exceed the samples"):
        CHECKS["learns_within_limits"](Greedy())


@dataclass
class Mutable:
    rounds: int = 0


@dataclass(frozen=True, kw_only=True)
class MutableState:
    """FedAvg with a state that is not frozen."""

    measures = "nothing"

    def describe(self, _state: Mutable) -> dict[str, float]:
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, Mutable]:
        return FedAvg().start(fleet, limits, cohort)[0], Mutable()

    def adapt(
        self, _report: Any, fleet: Fleet, limits: Limits, cohort: IntArray, state: Mutable
    ) -> tuple[Plan, Mutable]:
        return FedAvg().start(fleet, limits, cohort)[0], state


def test_a_state_that_can_change_fails() -> None:
    with pytest.raises(AssertionError, match="state is a Mutable: use @dataclass"):
        CHECKS["state_is_data"](MutableState())  # type: ignore[arg-type]
