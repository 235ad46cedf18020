"""Controllers by name, and what holds for all of them in a small world."""

import dataclasses
import numbers
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl import Fleet, Infeasible, Limits, LossGeometry
from dynamite_fl.control.ablations import StaticTau
from dynamite_fl.control.controller import Controller
from dynamite_fl.control.feedback import Feedback
from dynamite_fl.control.registry import CONTROLLERS, make_controller
from dynamite_fl.errors import JobError, UserCodeError
from tests.control.simulator import World, training
from tests.examples import examples
from tests.plan.strategies import fleets, limits

GEOMETRY = LossGeometry(
    learning_rate=0.05,
    quadratic_bound=5,
    smoothness=2,
    pl_constant=0.2,
    divergence=2,
    loss_gap=2.3,
)


def make(name: str) -> Controller[Any]:
    more: dict[str, Any] = {"geometry": GEOMETRY} if name == "cooptfl" else {}
    return make_controller(name, learning_rate=0.05, **more)


def require_plain(state: Any) -> None:
    """Require None, or a frozen dataclass of numbers, arrays, None or such dataclasses."""
    if state is None:
        return
    assert dataclasses.is_dataclass(state)
    assert getattr(state, "__dataclass_params__").frozen  # noqa: B009  mypy knows no better
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if dataclasses.is_dataclass(value):
            require_plain(value)
        elif isinstance(value, np.ndarray):
            assert value.dtype.kind in "fib"
        else:
            assert value is None or isinstance(value, numbers.Real), field.name


def require_sound(
    controller: Controller[Any], guess: Fleet, given: Limits, truth: Fleet, seed: int
) -> None:
    for plan, left, cohort, state in training(controller, guess, given, World(truth, seed), 7):
        assert plan.seconds <= left.deadline
        assert plan.cost <= left.budget
        assert 1 <= plan.rounds <= (left.rounds or plan.rounds)
        assert 1 <= plan.local_steps <= left.max_local_steps
        assert plan.batch_sizes.shape == cohort.shape
        assert plan.batch_sizes.dtype == np.int64
        assert (plan.batch_sizes >= 1).all()
        assert (plan.batch_sizes <= truth.at_hand[cohort]).all()
        require_plain(state)


@examples(200)
@given(
    fleets(clients=5, samples=200),
    limits(rounds=st.none() | st.integers(1, 20), max_local_steps=6),
    st.integers(0, 1000),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_plans_keep_what_remains(truth: Fleet, given: Limits, seed: int, off: float) -> None:
    guess = Fleet(
        samples=truth.samples,
        gradient_variance=truth.gradient_variance,
        samples_per_second=truth.samples_per_second * off,
        step_overhead=truth.step_overhead * off,
        comm_seconds=truth.comm_seconds * off,
        buffer_size=truth.buffer_size,
    )
    for name in CONTROLLERS:
        require_sound(make(name), guess, given, truth, seed)


BIG = Fleet(
    samples=[500, 800, 1200, 100, 300],
    gradient_variance=2,
    samples_per_second=[50, 90, 200, 100, 70],
    step_overhead=0.02,
    comm_seconds=0.3,
    name=["ant", "bee", "cat", "dog", "eel"],
)
ROOM = Limits(
    rounds=60,
    deadline=300,
    budget=900,
    cost_per_sample=0.01,
    cost_per_round=1,
    max_local_steps=10,
)


@pytest.mark.parametrize("name", CONTROLLERS)
@pytest.mark.parametrize("rounds", [60, None])
def test_the_same_reports_give_the_same_plans_within_the_limits(
    name: str, rounds: int | None
) -> None:
    given = dataclasses.replace(ROOM, rounds=rounds)
    runs = [[*training(make(name), BIG, given, World(BIG, 5), 12)] for _ in range(2)]
    assert len(runs[0]) == len(runs[1]) == 12
    for (plan, left, _, _), (other, _, _, _) in zip(*runs, strict=True):
        assert plan.local_steps == other.local_steps
        assert plan.batch_sizes.tolist() == other.batch_sizes.tolist()
        assert (plan.seconds, plan.cost) == (other.seconds, other.cost)
        assert plan.seconds <= left.deadline


@pytest.mark.parametrize("name", CONTROLLERS)
def test_training_goes_on_if_all_clients_are_absent(name: str) -> None:
    world = World(BIG, 3, absence=1.0)
    assert len([*training(make(name), BIG, ROOM, world, 5)]) == 5


@pytest.mark.parametrize("name", CONTROLLERS)
def test_impossible_limits_are_refused_by_name_of_the_client(name: str) -> None:
    tight = dataclasses.replace(ROOM, deadline=0.1)
    with pytest.raises(Infeasible, match="eel"):
        make(name).start(BIG, tight, np.array([4]))


@pytest.mark.parametrize("name", ["dynamite", "no-straggler"])
def test_many_clients(name: str) -> None:
    n = 100_000
    random = np.random.default_rng(0)
    fleet = Fleet(
        samples=random.integers(10, 500, n),
        gradient_variance=1,
        samples_per_second=random.uniform(10, 500, n),
        comm_seconds=0.3,
    )
    controller, world = make(name), World(fleet, 0)
    cohort = np.sort(random.choice(n, 100, replace=False))
    plan, state = controller.start(fleet, ROOM, cohort)
    for index in range(1, 5):
        report = world.run_round(plan, cohort, index, probed=True)
        cohort = np.sort(random.choice(n, 100, replace=False))
        plan, state = controller.adapt(report, fleet, ROOM, cohort, state)
    assert plan.batch_sizes.size == 100


def test_settings_are_passed_and_the_learning_rate_where_it_is_one() -> None:
    static = make_controller("dynamite-static-tau", learning_rate=0.1, local_steps=4)
    assert static == StaticTau(local_steps=4)
    feedback = make_controller("dynamite-feedback", learning_rate=0.1)
    assert feedback == Feedback(learning_rate=0.1)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("dinamite", {}, "did you mean 'dynamite'"),
        ("no_straggler", {}, "did you mean 'no-straggler'"),
        (
            "fedavg",
            {"batchsize": 3},
            "fedavg has no setting 'batchsize': did you mean 'batch_size'",
        ),
        ("dynamite", {"local_steps": 2}, "controller dynamite has no setting 'local_steps'"),
        ("dynamite-feedback", {"memory": 1}, "has no setting 'memory': it has none"),
        ("dynamite", {"learning_rates": 1}, "has no setting 'learning_rates'"),
        ("cooptfl", {}, "cooptfl needs the setting 'geometry'"),
        ("fixed", {"local_steps": 0}, "local_steps is 0"),
        ("fixed", {"batch_size": 1.5}, "batch_size is 1.5"),
        ("dynamite", {"most_quadratic_bound": 0}, "most_quadratic_bound is 0"),
        ("dynamic-tau", {"phi": float("nan")}, "phi is nan"),
        ("dbfl", {"ceiling": 5}, "ceiling is 5: it must be at least the batch_size of 60"),
    ],
)
def test_wrong_names_and_settings(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_controller(name, learning_rate=0.1, **given)


OWN = """
from dataclasses import dataclass
from dynamite_fl.control.baselines.fedavg import FedAvg

@dataclass(frozen=True, kw_only=True)
class Mine:
    learning_rate: float
    size: int
    measures = "nothing"

    def __post_init__(self):
        if self.size == 13:
            raise RuntimeError("no luck")

    def describe(self, state):
        return {}

    def start(self, fleet, limits, cohort):
        return FedAvg(batch_size=self.size).start(fleet, limits, cohort)

    def adapt(self, report, fleet, remaining, cohort, state):
        return self.start(fleet, remaining, cohort)

@dataclass
class Thawed(Mine.__mro__[1]):
    pass

@dataclass(frozen=True)
class Half:
    def start(self):
        pass
"""


def test_a_controller_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own_controller.py").write_text(OWN)
    own = make_controller("own_controller:Mine", learning_rate=0.1, folders=[tmp_path], size=7)
    plan, _ = own.start(BIG, ROOM, np.array([0, 1]))
    assert plan.batch_sizes.tolist() == [7, 7]
    assert getattr(own, "learning_rate") == 0.1  # noqa: B009  of a class that mypy does not know


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("own_controller:Mine", {}, "own_controller:Mine needs the setting 'size'"),
        ("own_controller:Mine", {"sizes": 3}, "no setting 'sizes': did you mean 'size'"),
        ("own_controller:Mind", {}, "has no 'Mind': did you mean 'Mine'"),
        ("own_controller:Thawed", {}, "must be a class with @dataclass"),
        ("own_controller:OWN", {}, "has no 'OWN'"),
        ("own_controller:FedAvg.start", {}, "write it as module:name"),
        ("own_controller:Half", {}, "Half lacks measures, describe, adapt"),
        ("own_controler:Mine", {}, "no module 'own_controler' in .*, .* or on Python's path"),
    ],
)
def test_wrong_controllers_of_ones_own(
    name: str, given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "own_controller.py").write_text(OWN)
    with pytest.raises(JobError, match=message):
        make_controller(name, learning_rate=0.1, folders=[tmp_path], **given)


def test_an_exception_of_ones_own_class_keeps_its_frames(tmp_path: Path) -> None:
    (tmp_path / "own_controller.py").write_text(OWN)
    with pytest.raises(UserCodeError, match="RuntimeError: no luck") as caught:
        make_controller("own_controller:Mine", learning_rate=0.1, folders=[tmp_path], size=13)
    cause = caught.value.__cause__
    assert isinstance(cause, RuntimeError)
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "__post_init__"
