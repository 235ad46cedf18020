import numpy as np
import pytest
from hypothesis import given

from dynamite_fl.plan._allocate import allocate
from tests.examples import examples
from tests.plan.oracles import Floats, enumerated_noise, greedy_noise, milp_noise
from tests.plan.strategies import Split, splits, splits_from


def noise_of(split: Split, least: Floats | None = None) -> float:
    """The noise of our split, once it is seen to be allowed."""
    weights, ceilings, total = split
    sizes = allocate(weights, ceilings[None], np.array([total]), least)[0]
    assert (sizes == np.floor(sizes)).all()
    assert (sizes >= (1 if least is None else least)).all()
    assert (sizes <= ceilings).all()
    assert sizes.sum() <= total
    return float((weights / sizes).sum())


@examples(4000)
@given(splits(clients=4, most=6))
def test_split_is_the_best_of_all(split: Split) -> None:
    assert noise_of(split) == pytest.approx(enumerated_noise(*split), rel=1e-12)


@examples(2500)
@given(splits(clients=40, most=200))
def test_split_equals_greedy_by_heap(split: Split) -> None:
    assert noise_of(split) == pytest.approx(greedy_noise(*split), rel=1e-12)


@examples(2000)
@given(splits_from(clients=4, most=6))
def test_split_from_least_sizes_is_the_best_of_all(given: tuple[Split, Floats]) -> None:
    split, least = given
    assert noise_of(split, least) == pytest.approx(enumerated_noise(*split, least), rel=1e-12)


@examples(1000)
@given(splits_from(clients=40, most=200))
def test_split_from_least_sizes_equals_greedy_by_heap(given: tuple[Split, Floats]) -> None:
    split, least = given
    assert noise_of(split, least) == pytest.approx(greedy_noise(*split, least), rel=1e-12)


@examples(500)
@given(splits(clients=10, most=12))
def test_split_is_no_worse_than_an_integer_program(split: Split) -> None:
    ours, theirs = noise_of(split), milp_noise(*split)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)  # the solver's own tolerance


@pytest.mark.parametrize("spread", [0.0, 0.5, 3.0])
def test_split_of_many_clients(spread: float) -> None:
    rng = np.random.default_rng(0)
    weights = rng.lognormal(0, spread, 1000)
    ceilings = rng.integers(1, 200, 1000).astype(float)
    for total in (1000, 1001, 10_000, ceilings.sum() - 1, ceilings.sum()):
        split = (weights, ceilings, float(total))
        assert noise_of(split) == pytest.approx(greedy_noise(*split), rel=1e-12)
        least = np.minimum(8.0, ceilings)
        if total >= least.sum():
            assert noise_of(split, least) == pytest.approx(greedy_noise(*split, least), rel=1e-12)


def test_rows_do_not_touch_each_other() -> None:
    rng = np.random.default_rng(1)
    weights = rng.lognormal(0, 1, 30)
    ceilings = rng.integers(1, 50, (20, 30)).astype(float)
    totals = rng.integers(30, 900, 20).astype(float)
    together = allocate(weights, ceilings, totals)
    for row in range(20):
        alone = allocate(weights, ceilings[row : row + 1], totals[row : row + 1])
        assert (together[row] == alone[0]).all()


@pytest.mark.parametrize(
    "weights",
    [
        [1e300, 1e-300, 1.0],  # farther apart than doubles can square
        [0.0, 0.0, 0.0],
        [1e-320, 1e-320, 0.0],  # denormal
    ],
)
def test_extreme_weights(weights: list[float]) -> None:
    w: Floats = np.array(weights)
    sizes = allocate(w, np.full((1, 3), 9.0), np.array([12.0]))[0]
    assert sizes.sum() <= 12
    assert (sizes >= 1).all()
    assert (w / sizes).sum() <= greedy_noise(w, np.full(3, 9.0), 12) * (1 + 1e-12)


def test_worthless_samples_are_not_bought() -> None:
    sizes = allocate(np.array([1.0, 0.0]), np.array([[4.0, 100.0]]), np.array([50.0]))
    assert sizes.tolist() == [[4, 1]]
