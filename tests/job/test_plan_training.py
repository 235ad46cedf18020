"""The planner's numbers for a training job."""

import numpy as np
import pytest

from dynamite_fl import Infeasible, cooptimize
from dynamite_fl.errors import JobError
from dynamite_fl.job.build import build_engine, build_training
from dynamite_fl.job.plan_training import plan_training_job
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.training.loop import begin

SMALL = ["task={model='softmax', dataset='synthetic'}", "controller=cooptfl", "devices=testbed5"]
SMALL += ["limits={deadline=60, budget=90, cost_per_sample=0.001, cost_per_round=1, rounds=40}"]


def small_job(*changes: str) -> TrainingJob:
    return load_training_job(overrides=[*SMALL, *changes])


def test_a_pilot_plans_what_the_controller_cooptfl_plans() -> None:
    job = small_job()
    planning = plan_training_job(job, pilot_rounds=5)
    plan = cooptimize(planning.fleet, planning.limits, planning.geometry)
    expected = begin(build_training(job)).plan
    assert plan.local_steps == expected.local_steps
    assert plan.batch_sizes.tolist() == expected.batch_sizes.tolist()
    assert plan.bound == expected.bound
    assert "measured in a pilot run of 5 rounds" in planning.notes[-1]


def test_without_a_pilot_devices_are_nominal_and_the_loss_is_assumed() -> None:
    job = small_job("training.learning_rate=0.05")
    planning = plan_training_job(job)
    fleet = build_engine(job).enroll()
    for column in ("samples", "samples_per_second", "step_overhead", "comm_seconds"):
        assert np.array_equal(getattr(planning.fleet, column), getattr(fleet, column))
    assert planning.geometry.learning_rate == job.settings.learning_rate
    assert "an example, not of this task" in planning.notes[-1]


def test_a_job_may_have_the_constants_of_its_loss() -> None:
    constants = "{quadratic_bound=5, smoothness=3, pl_constant=0.2, divergence=2, loss_gap=2.3}"
    job = small_job(f"geometry={constants}", "training.learning_rate=0.05")
    geometry = plan_training_job(job).geometry
    assert (geometry.smoothness, geometry.pl_constant) == (3, 0.2)
    assert geometry.learning_rate == job.settings.learning_rate
    with pytest.raises(JobError, match="nothing to measure: omit --pilot"):
        plan_training_job(job, pilot_rounds=5)
    with pytest.raises(JobError, match="geometry lacks the key 'smoothness'"):
        plan_training_job(small_job("geometry={quadratic_bound=5, learning_rate=0.1}"))


def test_rounds_are_at_most_those_that_fit() -> None:
    assert plan_training_job(small_job()).limits.rounds == 40
    fewer = plan_training_job(small_job("limits.budget=10.5")).limits.rounds
    assert fewer is not None
    assert 1 <= fewer <= 10
    with pytest.raises(Infeasible, match="The smallest change: budget = 1"):
        plan_training_job(small_job("limits.budget=0.5"))


def test_epsilon_limits_the_rounds_of_a_plan() -> None:
    tables = ["limits.epsilon=10", "limits.delta=0.05"]
    tables.append("privacy={clip_norm=1, noise_multiplier=2}")
    job = load_training_job(overrides=tables)
    planning = plan_training_job(job)
    assert planning.limits.rounds is not None
    assert planning.limits.rounds < 150
    assert f"Epsilon allows {planning.limits.rounds} rounds." in planning.notes
    with pytest.raises(JobError, match="omit --pilot"):
        plan_training_job(job, pilot_rounds=2)
