"""The best fixed setting in hindsight, against numbers worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamite_fl.compare.hindsight import (
    FixedSetting,
    look_back,
    share_covered,
)
from dynamite_fl.compare.summary import summarize
from tests.compare.results import RESULTS, errors_of, result
from tests.regressions import RMSE


def test_share_covered_by_hand() -> None:
    fedavg, best = {0: 0.6, 1: 0.8}, {0: 0.9, 1: 0.9}  # gaps of 0.3 and 0.1: 0.2 ± 0.14
    assert share_covered({0: 0.8, 1: 0.8}, fedavg, best) == pytest.approx(0.5)
    assert share_covered(best, fedavg, best) == pytest.approx(1.0)
    assert share_covered({0: 0.5, 1: 0.8}, fedavg, best) == pytest.approx(-0.25)
    # Only seed 0 counts, which all three have.
    assert share_covered({0: 0.7}, fedavg, best) == pytest.approx(1 / 3, abs=1e-6)
    assert share_covered({}, fedavg, best) is None
    noisy = {0: 0.9, 1: 0.7}  # gaps of 0.3 and -0.1: 0.1 ± 0.28
    assert share_covered(best, fedavg, noisy) is None
    assert share_covered(fedavg, fedavg, fedavg) is None


def test_hindsight_by_hand() -> None:
    fixed = [result("fixed-1x8", 0, 0.7), result("fixed-5x4", 0, 0.95), result("fixed-2x9", 0, 0.9)]
    fixed += [result("fixed-5x4", 1, 0.85), result("fixed-2x9", 1, 0.96)]
    found = look_back(fixed, summarize(RESULTS, 0.5), 0.5)
    assert found is not None
    assert list(found.tried.items()) == [
        (FixedSetting(5, 4), 0.95),
        (FixedSetting(2, 9), 0.9),
        (FixedSetting(1, 8), 0.7),
    ]
    assert found.best.contender == "fixed-2x9"  # 0.93 over both seeds, against 0.9
    assert found.gap == pytest.approx(0.23)
    assert found.deviation == pytest.approx(0.14 / 2**0.5)  # of 0.3 and 0.16
    assert found.covered["dynamite"] == pytest.approx(0.1 / 0.23, abs=1e-6)
    assert found.covered["fedavg"] == 0


def test_where_lower_is_better_the_lowest_setting_is_the_best() -> None:
    """FedAvg's errors are 4 and 2, those of the best setting 1 on both seeds."""
    runs = [result("fedavg", seed, final, metric=RMSE) for seed, final in enumerate((4.0, 2.0))]
    runs += [result("ours", seed, 2.0, metric=RMSE) for seed in (0, 1)]
    finals = {"fixed-1x8": 9.0, "fixed-5x4": 1.0, "fixed-2x9": 3.0}
    fixed = [
        result(name, seed, final, metric=RMSE) for name, final in finals.items() for seed in (0, 1)
    ]
    found = look_back(fixed, summarize(runs, 2.0), 2.0)
    assert found is not None
    assert list(found.tried.items()) == [
        (FixedSetting(5, 4), 1.0),
        (FixedSetting(2, 9), 3.0),
        (FixedSetting(1, 8), 9.0),
    ]
    assert found.best.contender == "fixed-5x4"
    assert found.gap == 2.0  # 3 and 1
    assert found.covered == {"ours": 0.5, "fedavg": 0.0}
    assert look_back(fixed[:2], summarize(runs, 2.0), 2.0).best.contender == "fedavg"  # type: ignore[union-attr]


@given(finals=st.lists(st.floats(0, 1), min_size=8, max_size=8))
def test_directions_give_the_same_hindsight(finals: list[float]) -> None:
    """One less each accuracy is an error, and every gain stays what it is."""
    names = ["fedavg", "ours", "fixed-1x8", "fixed-5x4"]
    pairs = [(name, seed) for name in names for seed in (0, 1)]
    runs = [result(*pair, final) for pair, final in zip(pairs, finals, strict=True)]
    errors = errors_of(runs, RMSE)
    found = look_back(runs[4:], summarize(runs[:4], 0.5), 0.5)
    mirrored = look_back(errors[4:], summarize(errors[:4], 0.5), 0.5)
    assert found is not None
    assert mirrored is not None
    assert mirrored.gap == pytest.approx(found.gap, abs=1e-12)
    assert mirrored.best.final.mean == pytest.approx(1 - found.best.final.mean, abs=1e-12)
    best = min(summary.final.mean for summary in summarize([*errors[:2], *errors[4:]], 0.5))
    assert mirrored.best.final.mean == best


def test_hindsight_without_fedavg_has_no_gap() -> None:
    found = look_back([result("fixed-1x8", 0, 0.7)], summarize(RESULTS[:2], 0.5), 0.5)
    assert found is not None
    assert (found.gap, found.covered) == (None, {"dynamite": None})
    assert look_back([], summarize(RESULTS[:2], 0.5), 0.5) is None


def test_the_way_is_counted_from_fedavg_at_its_best_rate() -> None:
    """FedAvg reaches 0.6 at the job's rate and 0.8 at a better one, the best setting 0.9."""
    runs = [result("ours", 0, 0.85), result("fedavg", 0, 0.6), result("fedavg@0.3", 0, 0.8)]
    found = look_back([result("fixed-5x4@0.1", 0, 0.9)], summarize(runs, 0.5), 0.5)
    assert found is not None
    assert found.fedavg is not None
    assert found.fedavg.contender == "fedavg@0.3"
    assert found.tried == {FixedSetting(5, 4, 0.1): 0.9}
    assert found.gap == pytest.approx(0.1)
    assert found.covered["ours"] == pytest.approx(0.5)
    assert found.covered["fedavg"] == pytest.approx(-2.0)


def test_names_of_fixed_settings() -> None:
    for setting in (FixedSetting(5, 4), FixedSetting(5, 4, 0.1), FixedSetting(5, 4, 1e-5)):
        assert FixedSetting.from_name(setting.name) == setting
    for name in ("fedavg@0.1", "fixed", "fixed-5x4x3", "fixed-5x4@fast"):
        assert FixedSetting.from_name(name) is None
