import numpy as np
import pytest

from dynamite_fl.errors import InvalidInput
from dynamite_fl.training.cohort import Cohort, Selection, averaging_weights, draw_cohort

SAMPLES = np.array([1.0, 1, 8, 10])


def test_all_take_part_unless_a_size_is_given() -> None:
    assert draw_cohort(SAMPLES, Selection(), 0, 5).clients.tolist() == [0, 1, 2, 3]
    assert draw_cohort(SAMPLES, Selection(size=9), 0, 5).clients.tolist() == [0, 1, 2, 3]


def test_cohorts_are_drawn_anew_each_round_and_again_the_same() -> None:
    cohorts = [draw_cohort(SAMPLES, Selection(size=2), 3, k).clients.tolist() for k in range(1, 30)]
    assert cohorts == [
        draw_cohort(SAMPLES, Selection(size=2), 3, k).clients.tolist() for k in range(1, 30)
    ]
    assert len({tuple(cohort) for cohort in cohorts}) > 3
    assert all(cohort == sorted(set(cohort)) for cohort in cohorts)


@pytest.mark.parametrize(("by", "expected"), [("uniform", 0.25), ("data", 0.05)])
def test_clients_are_drawn_with_the_chances_that_the_selection_says(
    by: str, expected: float
) -> None:
    """How often client 0 is drawn alone, within four standard errors."""
    rounds = 4000
    drawn = [
        draw_cohort(SAMPLES, Selection(size=1, by=by), 0, k).clients[0]
        for k in range(1, rounds + 1)
    ]
    error = np.sqrt(expected * (1 - expected) / rounds)
    assert np.mean(np.array(drawn) == 0) == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize("by", ["uniform", "data"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_expected_weight_of_a_client_is_its_share_of_the_data(by: str, size: int) -> None:
    """The average is unbiased for both ways to draw, within four standard errors."""
    rounds, selection = 4000, Selection(size=size, by=by)
    weights = np.zeros((rounds, SAMPLES.size))
    for k in range(rounds):
        cohort = draw_cohort(SAMPLES, selection, 0, k)
        column, factor = averaging_weights(cohort, selection, SAMPLES[cohort.clients], SAMPLES)
        weights[k, cohort.clients] = factor * column / column.sum()
        assert cohort.draws.sum() == size
    error = weights.std(axis=0) / np.sqrt(rounds)
    assert (abs(weights.mean(axis=0) - SAMPLES / SAMPLES.sum()) < 4 * error).all()


def test_the_weights_of_a_uniform_cohort_by_hand() -> None:
    """Of D = 1, 1, 8, three pairs are equally likely; client i counts 3/2 D_i/10 in two of them."""
    samples = np.array([1.0, 1, 8])
    total = np.zeros(3)
    for pair in ([0, 1], [0, 2], [1, 2]):
        cohort = Cohort(np.array(pair), np.ones(2, dtype=np.int64))
        column, factor = averaging_weights(cohort, Selection(size=2), samples[pair], samples)
        total[pair] += factor * column / column.sum() / 3
    np.testing.assert_allclose(total, [0.1, 0.1, 0.8])


@pytest.mark.parametrize(
    ("wrong", "named"), [({"size": 0}, "cohort is 0"), ({"by": "luck"}, "select_by 'luck'")]
)
def test_wrong_selections_are_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInput, match=rf"training\.{named}"):
        Selection(**wrong)  # type: ignore[arg-type]
