"""Whole trainings with differential privacy: what they refuse, keep to and repeat."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamite_fl import InvalidInput, Optimizer
from dynamite_fl.client.executors.executor import InProcess
from dynamite_fl.client.executors.one_by_one import run_one_by_one
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.training.engine import ModelSize
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.private_rules import check_private
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session
from tests.training.private import private_training


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"controller": "dynamite"}, "losses and gradients"),
        ({"controller": "dynamic-tau"}, "losses and gradients"),
        ({"controller": "dynamite-feedback", "noise_at": "node"}, "sketches of their path"),
        ({"server": "fedexp"}, "fedexp"),
        ({"server": "extrapolation"}, "extrapolation"),
        ({"averaging": "median"}, "averaging"),
        ({"select_by": "data", "cohort": 5}, "select_by"),
    ],
)
def test_what_learns_more_than_the_noisy_sum_is_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        begin(private_training(**settings))


def test_buffers_are_refused() -> None:
    made = private_training()
    assert made.privacy is not None
    with pytest.raises(InvalidInput, match="4 numbers in buffers"):
        check_private(
            made.privacy,
            controller=made.controller,
            server=made.server,
            selection=made.schedule.selection,
            size=ModelSize(numbers=14, trained=10),
            averaging=made.averaging,
            learning_rate=made.learning_rate,
        )


@pytest.mark.parametrize(
    "settings",
    [
        {"controller": "fedavg"},
        {"controller": "dynamite-feedback", "cohort": 8},
        {"controller": "dynamite-feedback", "optimizer": Optimizer("Adam")},
        {"controller": "uniform", "noise_at": "node", "cohort": 8},
        {"controller": "no-straggler", "server": "fedadam", "cohort": 2},
        {"controller": "dbfl"},
    ],
)
def test_epsilon_is_charged_in_every_round_and_ends_the_training(settings: dict[str, Any]) -> None:
    made = private_training(**settings, limit={"epsilon": 3.0, "budget": 1e9, "deadline": 1e9})
    assert made.privacy is not None
    history = [finished.ledger for _, finished in rounds(made, begin(made))]
    most = made.privacy.most_releases
    assert len(history) == min(most, 8)
    assert [ledger.epsilon for ledger in history] == [
        made.privacy.accountant.epsilon(k + 1) for k in range(len(history))
    ]
    assert history[-1].epsilon <= 3.0


@settings(deadline=None, max_examples=15)
@given(
    epsilon=st.floats(1.0, 6.0),
    cohort=st.sampled_from([None, 1, 6]),
    budget=st.floats(3.0, 12.0),
    noise=st.sampled_from([1.5, 3.0]),
)
def test_no_limit_is_ever_exceeded(
    epsilon: float, cohort: int | None, budget: float, noise: float
) -> None:
    limit = {"epsilon": epsilon, "budget": budget, "rounds": None, "cost_per_sample": 0.0002}
    made = private_training(cohort=cohort, noise_multiplier=noise, limit=limit)
    if made.privacy is None or made.privacy.most_releases == 0:
        return
    progress = begin(made)
    for after, finished in rounds(made, progress):
        progress = after
        assert finished.ledger.epsilon <= epsilon
        assert finished.ledger.cost <= budget
    assert progress.ended in ("epsilon", "budget", "deadline")
    if progress.ended == "epsilon":
        spent = made.privacy.accountant.epsilon(progress.ledger.rounds + 1)
        assert spent > epsilon  # one more round would not have fitted


def test_the_controller_plans_with_the_rounds_that_epsilon_allows() -> None:
    limit = {"epsilon": 3.0, "rounds": None, "deadline": 1e6, "budget": 1e6}
    made = private_training("uniform", limit=limit)
    assert made.privacy is not None
    assert made.planned_limits.rounds == made.privacy.most_releases
    plans = [begin(made).plan.rounds]
    plans += [progress.plan.rounds for progress, _ in rounds(made, begin(made))]
    assert plans[0] == made.privacy.most_releases
    assert plans[1] == plans[0] - 1


@pytest.mark.parametrize(
    "settings",
    [
        {"controller": "dynamite-feedback", "cohort": 6},
        {"controller": "uniform", "noise_at": "node"},
        {"controller": "fedavg", "noise_multiplier": 0.3, "clip_quantile": 0.5},
    ],
)
def test_a_resumed_training_is_the_same_to_the_bit(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    whole = RunFolder(tmp_path / "whole")
    whole.path.mkdir()
    reached = Session(private_training(**settings), whole).run()
    parts = RunFolder(tmp_path / "parts")
    parts.path.mkdir()
    for _ in range(9):
        counted = iter([False, True])
        stop = Session(private_training(**settings), parts, should_stop=lambda: next(counted)).run()  # noqa: B023
        if stop.stopped_by is not None:
            break
    assert parts.history.read_bytes() == whole.history.read_bytes()
    assert torch.equal(stop.weights, reached.weights)
    assert reached.history[-1].epsilon is not None


@pytest.mark.parametrize("noise_at", ["server", "node"])
def test_all_executors_give_the_same_updates(noise_at: str) -> None:
    def weights_of(*, stacked: bool, workers: int) -> torch.Tensor:
        made = private_training("fedavg", noise_at=noise_at, workers=workers)
        engine = made.engine
        assert isinstance(engine, SimulatedEngine)
        if workers > 1:
            from dynamite_fl.simulation.workers import WorkerProcesses

            engine.executor = WorkerProcesses(workers, engine.clients.make)
        elif not stacked:
            engine.executor = InProcess(engine.clients.make, run_one_by_one)
        *_, (progress, _) = islice(rounds(made, begin(made)), 3)
        engine.close()
        return progress.weights

    alone = weights_of(stacked=False, workers=1)
    assert torch.equal(weights_of(stacked=False, workers=2), alone)
    # Computing many clients at once has other rounding errors, but the same noise.
    assert torch.allclose(weights_of(stacked=True, workers=1), alone, atol=1e-5)


def test_noise_at_nodes_and_at_the_server_are_different_but_alike() -> None:
    spread = []
    for noise_at in ("server", "node"):
        made = private_training("fedavg", noise_at=noise_at, clip_norm=1e-9, noise_multiplier=1e9)
        first = begin(made)
        progress, _ = next(iter(rounds(made, first)))
        moved = (progress.weights - first.weights).double()
        spread.append(float(moved.std()))
    # Both are noise of the deviation z C / n = 1 / 20 in 650 numbers.
    assert spread == pytest.approx([1 / 20, 1 / 20], rel=5 / (2 * 650) ** 0.5)
    assert spread[0] != spread[1]
