from dataclasses import replace

import numpy as np
import pytest
import torch

from dynamite_fl.client.sketch import sketch, sketch_size
from dynamite_fl.client.step_path import StepPath
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.engine import RoundOutcome
from dynamite_fl.training.loop import begin, run_round
from dynamite_fl.training.mean_path import with_path
from tests.trainings import training


def outcome_of(local_steps: int, present: list[bool], heads: list[list[float]]) -> RoundOutcome:
    n = len(present)
    here = np.array(present)
    report = RoundReport(
        round_index=1,
        clients=np.arange(n),
        local_steps=local_steps,
        learning_rate=0.1,
        batch_sizes=np.full(n, 4),
        present=here,
        samples=np.where(here, np.array([10.0, 20.0, 30.0]), np.nan),
        step_seconds=np.ones(n),
        comm_seconds=np.ones(n),
        probe=None,
    )
    paths = [StepPath(sketch(torch.tensor(head)), 5.0) for head in heads]
    updates = [torch.zeros(2)] * len(paths)
    return RoundOutcome(report, updates, paths, seconds=1.0, samples=1, sent_bytes=1)


def test_heads_are_weighed_as_updates_are_and_tails_are_the_rest() -> None:
    """Clients of 10 and 30 samples, the other away; 5 steps, 3 in the head and 2 in the tail.

    The heads' mean is (10 (3, 0) + 30 (0, 3))/40 = (0.75, 2.25), a step of it (0.25, 0.75). All
    the way is (1.75, 4.25): the rest is (1, 2), a step of it (0.5, 1).
    """
    outcome = outcome_of(5, [True, False, True], [[3.0, 0.0], [0.0, 3.0]])
    path = with_path(
        outcome, np.array([True, True]), np.array([0.25, 0.75]), torch.tensor([1.75, 4.25])
    ).path
    assert path is not None
    signs = sketch(torch.ones(2)).numpy()
    assert (path.first_half * signs).tolist() == [0.25, 0.75]
    assert (path.second_half * signs).tolist() == [0.5, 1.0]
    np.testing.assert_array_equal(path.gradient_variance, [5.0, np.nan, 5.0])


def test_a_refused_update_has_no_part_in_the_path() -> None:
    outcome = outcome_of(2, [True, False, True], [[np.nan, np.nan], [1.0, 2.0]])
    path = with_path(
        outcome, np.array([False, True]), np.array([1.0]), torch.tensor([3.0, 3.0])
    ).path
    assert path is not None
    signs = sketch(torch.ones(2)).numpy()
    assert (path.first_half * signs).tolist() == [1.0, 2.0]
    assert (path.second_half * signs).tolist() == [2.0, 1.0]


def test_the_early_share_is_the_median_of_those_who_measured_it() -> None:
    """One client claims an absurd share, and one has sent none."""
    outcome = outcome_of(40, [True, True, True], [[1.0, 2.0]] * 3)
    everybody, equal, movement = np.full(3, True), np.full(3, 1 / 3), torch.tensor([1.0, 2.0])
    for sent, expected in (
        ((0.2, 1e9, 0.4), 0.4),
        ((np.nan, 0.2, 0.4), 0.3),
        ((np.nan,) * 3, np.nan),
    ):
        paths = [replace(p, early_share=s) for p, s in zip(outcome.paths, sent, strict=True)]
        path = with_path(replace(outcome, paths=paths), everybody, equal, movement).path
        assert path is not None
        assert path.early_share == pytest.approx(expected, nan_ok=True)


def test_a_single_step_is_both_halves() -> None:
    outcome = outcome_of(1, [True, True, True], [[1.0, 2.0]] * 3)
    path = with_path(outcome, np.full(3, True), np.full(3, 1 / 3), torch.tensor([1.0, 2.0])).path
    assert path is not None
    np.testing.assert_allclose(path.first_half, path.second_half)


@pytest.mark.parametrize("name", ["dynamite-feedback", "dynamite", "fedavg"])
def test_what_is_sent_beside_the_model_is_charged(name: str) -> None:
    """A sketch is m of the 2 d numbers of a model's way there and back, a gradient d of them."""
    given = training(name)
    progress = begin(given)
    d = progress.weights.numel()
    beside = {"dynamite-feedback": sketch_size(d) / (2 * d), "dynamite": 0.5, "fedavg": 0.0}[name]
    first, _ = run_round(given, progress)
    after, played = run_round(given, first)  # there is no gradient to send in the first round
    assert played is not None
    samples = given.limits.cost_per_sample * played.outcome.samples
    paid = after.ledger.cost - first.ledger.cost - samples
    assert paid == pytest.approx(given.limits.cost_per_round * (1 + beside))
