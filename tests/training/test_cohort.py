import numpy as np
import pytest

from dynamite_fl.errors import InvalidInput
from dynamite_fl.training.cohort import Selection, draw_cohort

SAMPLES = np.array([1.0, 1, 8, 10])


def test_all_take_part_unless_a_size_is_given() -> None:
    assert draw_cohort(SAMPLES, Selection(), 0, 5).tolist() == [0, 1, 2, 3]
    assert draw_cohort(SAMPLES, Selection(size=9), 0, 5).tolist() == [0, 1, 2, 3]


def test_cohorts_are_drawn_anew_each_round_and_again_the_same() -> None:
    cohorts = [draw_cohort(SAMPLES, Selection(size=2), 3, k).tolist() for k in range(1, 30)]
    assert cohorts == [draw_cohort(SAMPLES, Selection(size=2), 3, k).tolist() for k in range(1, 30)]
    assert len({tuple(cohort) for cohort in cohorts}) > 3
    assert all(cohort == sorted(set(cohort)) for cohort in cohorts)


@pytest.mark.parametrize(("by", "expected"), [("uniform", 0.25), ("data", 0.05)])
def test_clients_are_drawn_with_the_chances_that_the_selection_says(
    by: str, expected: float
) -> None:
    """How often client 0 is drawn alone, within four standard errors."""
    rounds = 4000
    drawn = [draw_cohort(SAMPLES, Selection(size=1, by=by), 0, k)[0] for k in range(1, rounds + 1)]
    error = np.sqrt(expected * (1 - expected) / rounds)
    assert np.mean(np.array(drawn) == 0) == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize(
    ("wrong", "named"), [({"size": 0}, "cohort is 0"), ({"by": "luck"}, "select_by 'luck'")]
)
def test_wrong_selections_are_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInput, match=rf"training\.{named}"):
        Selection(**wrong)  # type: ignore[arg-type]
