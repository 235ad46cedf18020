"""The mechanism: bounded by the clip norm before the noise, and the noise of the right size."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dynamite_fl.client.sketch import sketch
from dynamite_fl.client.step_path import StepPath
from dynamite_fl.records import FloatArray
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.engine import RoundOutcome
from dynamite_fl.training.private_average import noisy_sum, private_average
from dynamite_fl.training.private_mechanism import Mechanism, PrivacyState
from tests.training.private import CLIENTS, limits, mechanism

RATE = 0.1


class NoNoise:
    """A source that shows what the mechanism computes before noise."""

    def draw(self, count: int, _purpose: str, *_place: int) -> FloatArray:
        return np.zeros(count)


def without_noise(made: Mechanism) -> Mechanism:
    return replace(made, noise=NoNoise())


def outcome_of(
    updates: list[Tensor], paths: list[StepPath] | None = None, steps: int = 4
) -> RoundOutcome:
    n = len(updates)
    report = RoundReport(
        round_index=3,
        clients=np.arange(n),
        local_steps=steps,
        learning_rate=RATE,
        batch_sizes=np.full(n, 8),
        present=np.ones(n, dtype=bool),
        samples=np.arange(1.0, n + 1),
        step_seconds=np.ones(n),
        comm_seconds=np.ones(n),
        probe=None,
    )
    return RoundOutcome(report, updates, paths or [], 1.0, 10, 10)


def path_of(moved: Tensor, share: float, *, gradient: bool = False) -> StepPath:
    """Return the path of a client that moves a share of its way in the first half."""
    first = sketch(share * moved)
    return StepPath(first, 5.0, first / RATE if gradient else None)


vectors = st.lists(
    st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=3, max_size=3),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(vectors, st.floats(1e-3, 1e3), st.data())
def test_no_client_moves_the_sum_by_more_than_the_clip_norm(
    rows: list[list[float]], clip_norm: float, data: st.DataObject
) -> None:
    made = without_noise(mechanism(clip_norm=clip_norm))
    parts = [torch.tensor(row, dtype=torch.float64) for row in rows]
    absent = data.draw(st.integers(0, len(parts) - 1))
    others = parts[:absent] + parts[absent + 1 :]
    both = [noisy_sum(made, made.first_state(), some, 3, 1).mean for some in (parts, others)]
    # The sum is the mean times the divisor, which is the same for both.
    moved = made.expected_clients * float(torch.linalg.vector_norm(both[0] - both[1]))
    assert moved <= clip_norm * (1 + 1e-9)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 30), st.sampled_from([1, 4]), st.booleans())
def test_the_path_of_a_client_is_within_the_same_clip_norm(
    seed: int, size: float, steps: int, gradient: bool
) -> None:
    random = torch.Generator().manual_seed(seed)
    weights = torch.randn(40, generator=random)
    updates = [weights - size * torch.randn(40, generator=random) for _ in range(3)]
    paths = [path_of(weights - update, 0.6, gradient=gradient) for update in updates]
    made = without_noise(mechanism(clip_norm=1.0))

    def released(count: int) -> Tensor:
        """Return all that the mechanism gives away if only so many clients take part."""
        outcome = outcome_of(updates[:count], paths[:count], steps)
        averaged, outcome, _, _ = private_average(made, made.first_state(), weights, outcome)
        path = outcome.report.path
        assert path is not None
        halves = [path.first_half * (steps - steps // 2)]
        if steps > 1:
            halves.append(path.second_half * (steps // 2))
        if path.gradient is not None:
            halves.append(RATE * path.gradient * (steps - steps // 2))
        sketches = [0.5 * torch.from_numpy(half) for half in halves]
        return CLIENTS * torch.cat([averaged.movement.double(), *sketches])

    # The weights are rounded to single precision after the mechanism.
    assert float((released(3) - released(2)).norm()) < 1 + 1e-4


def test_short_updates_are_averaged_with_equal_weights() -> None:
    weights = torch.zeros(3)
    updates = [torch.tensor([0.5, 0.0, 0.0]), torch.tensor([0.0, 0.25, 0.0])]
    made = without_noise(mechanism(cohort=4))
    averaged, _, refused, state = private_average(
        made, made.first_state(), weights, outcome_of(updates)
    )
    # Samples are 1 and 2, but both weigh the same, and the sum is divided by the expected four.
    assert averaged.average.tolist() == [0.125, 0.0625, 0.0]
    assert averaged.updates == [averaged.average]
    assert (refused, state) == (0, PrivacyState(1.0, releases=1))


def test_invalid_updates_add_nothing() -> None:
    weights = torch.zeros(2)
    updates = [torch.tensor([0.5, math.nan]), torch.zeros(5), torch.tensor([0.0, 0.8])]
    made = without_noise(mechanism())
    averaged, _, refused, _ = private_average(
        made, made.first_state(), weights, outcome_of(updates)
    )
    assert refused == 1  # the misshapen one; that data leads to NaN must not be seen
    assert averaged.average.tolist() == pytest.approx([0.0, 0.8 / CLIENTS])


def test_the_update_of_a_stand_in_is_not_used() -> None:
    weights = torch.zeros(4)
    path = path_of(torch.ones(4), 0.5)
    made = without_noise(mechanism())
    state = replace(made.first_state(), is_cohort_empty=True)
    averaged, outcome, _, _ = private_average(
        made, state, weights, outcome_of([torch.ones(4)], [path])
    )
    assert averaged.average.tolist() == [0.0] * 4
    assert outcome.report.path is not None
    assert not outcome.report.path.first_half.any()


def test_the_path_is_that_of_the_clients_but_for_clipping_and_noise() -> None:
    weights = torch.randn(60, generator=torch.Generator().manual_seed(0))
    moved = [0.01 * torch.randn(60, generator=torch.Generator().manual_seed(k)) for k in (1, 2)]
    paths = [path_of(part, 0.75, gradient=True) for part in moved]
    made = without_noise(mechanism(cohort=2))
    outcome = outcome_of([weights - part for part in moved], paths, steps=5)
    _, outcome, _, _ = private_average(made, made.first_state(), weights, outcome)
    path, whole = outcome.report.path, sketch((moved[0] + moved[1]) / 2).numpy()
    assert path is not None
    assert path.gradient is not None
    assert np.allclose(path.first_half, 0.75 * whole / 3, atol=1e-6)
    assert np.allclose(path.second_half, 0.25 * whole / 2, atol=1e-6)
    assert np.allclose(path.gradient, 0.75 * whole / 3 / RATE, atol=1e-5)
    assert np.isnan(path.gradient_variance).all()  # it is not given away


@pytest.mark.parametrize("noise_at", ["server", "node"])
@pytest.mark.parametrize("present", [0, 3, 10, 14])
def test_the_noise_of_the_sum_has_the_promised_deviation(noise_at: str, present: int) -> None:
    # Ten clients are expected, and none of them moves. With noise at nodes each brings its share.
    size, clip_norm, multiplier = 30_000, 3.0, 2.0
    made = mechanism(cohort=10, clip_norm=clip_norm, noise_multiplier=multiplier, noise_at=noise_at)
    nodes = made.for_nodes()
    sent = [torch.zeros(size, dtype=torch.float64) for _ in range(present)]
    if nodes is not None:
        sent = [
            torch.from_numpy(nodes.noise_deviation * nodes.noise.draw(size, "node", 1, client))
            for client in range(present)
        ]
    noise = 10 * noisy_sum(made, made.first_state(), sent, size, 1).mean.numpy()
    shares = max(present, 10) / 10 if noise_at == "node" else 1.0
    expected = multiplier * clip_norm * math.sqrt(shares)
    # The mean has the deviation s/sqrt(n), and the sample deviation s/sqrt(2 n): five of them.
    assert abs(noise.mean()) < 5 * expected / math.sqrt(size)
    assert abs(noise.std() / expected - 1) < 5 / math.sqrt(2 * size)


def test_the_clip_norm_follows_its_quantile() -> None:
    # Norms are 1 to 100, so that half of them are below 50. The noise of the count moves the clip
    # norm by about 1 % a round.
    made = mechanism(
        clients=100,
        noise_multiplier=0.5,
        clip_quantile=0.5,
        clip_norm=10.0,
        given=limits(delta=1e-3),
    )
    parts = [torch.tensor([float(norm)], dtype=torch.float64) for norm in range(1, 101)]
    weights = torch.zeros(1)
    state = made.first_state()
    for _ in range(60):
        outcome = outcome_of([-part.float() for part in parts])
        report = replace(outcome.report, round_index=state.releases + 1)
        _, _, _, state = private_average(made, state, weights, replace(outcome, report=report))
    assert 35 < state.clip_norm < 65
    assert state.releases == 60


def test_repeated_rounds_are_the_same_to_the_bit() -> None:
    weights, made = torch.zeros(9), mechanism()
    outcome = outcome_of([torch.ones(9)])
    first, second = (
        private_average(made, made.first_state(), weights, outcome)[0].average for _ in range(2)
    )
    assert torch.equal(first, second)
