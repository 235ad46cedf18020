import numpy as np
import pytest

from dynamite_fl.training.progress import data_growth
from tests.control.estimate.test_rate import report

SAMPLES = np.array([10.0, 10.0, 10.0, 0.0, 10.0])


@pytest.mark.parametrize(
    ("reported", "growth"),
    [
        ([10, 10, 10], 1.0),
        ([15, 12, 11], 1.2),
        ([1e9, 10, 10], 1.0),  # one client that lies
        ([np.nan, 20, np.nan], 2.0),  # two are absent
        ([np.nan, np.nan, np.nan], 1.0),
    ],
)
def test_the_growth_of_data_is_the_median_of_the_clients(
    reported: list[float], growth: float
) -> None:
    of_a_round = report([np.nan] * 3, samples=reported)
    assert data_growth(SAMPLES, of_a_round) == pytest.approx(growth)


def test_a_client_without_samples_does_not_count() -> None:
    of_a_round = report([np.nan] * 4, samples=[10, 10, 10, 500])
    assert data_growth(SAMPLES, of_a_round) == 1.0
