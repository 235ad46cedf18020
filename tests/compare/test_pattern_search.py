"""The search on functions whose best points are known."""

from collections.abc import Sequence
from itertools import product
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamite_fl.compare.pattern_search import Pattern, Point, pattern_search

AXES = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]


class Counted:
    """A function of points that counts its evaluations."""

    def __init__(self, best: Point, curvature: float = 0.0) -> None:
        self.best, self.curvature = best, curvature
        self.asked: list[Point] = []

    def value(self, point: Point) -> float:
        x, *others = (a - b for a, b in zip(point, self.best, strict=True))
        return x * x + sum(abs(part) + self.curvature * part * x for part in others)

    def __call__(self, points: Sequence[Point]) -> list[float]:
        self.asked += points
        return [self.value(point) for point in points]


@given(best=st.tuples(*[st.integers(-12, 12)] * 3))
def test_the_best_point_of_a_bowl_is_found(best: Point) -> None:
    bowl = Counted(best)
    pattern = Pattern([(0, 0, 0)], AXES, strides=(4, 2, 1), sweeps=2)
    assert pattern_search(pattern, bowl) == best
    assert len(bowl.asked) == len(set(bowl.asked)) < 60  # of 15,625 points


@settings(max_examples=30)
@given(values=st.lists(st.integers(0, 5), min_size=49, max_size=49), start=st.integers(0, 48))
def test_no_neighbour_of_the_result_is_better_once_sweeps_suffice(
    values: list[int], start: int
) -> None:
    grid = dict(zip(product(range(7), range(7)), values, strict=True))

    def evaluate(points: Sequence[Point]) -> list[float]:
        return [grid.get((x, y), inf) for x, y in points]

    pattern = Pattern([list(grid)[start]], [(1, 0), (0, 1)], strides=(2, 1), sweeps=50)
    x, y = pattern_search(pattern, evaluate)
    beside = [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
    assert grid[x, y] <= min(evaluate(beside))
    assert grid[x, y] <= values[start]


def test_the_search_goes_beyond_the_edge_that_is_best() -> None:
    bowl = Counted((9,))
    pattern = Pattern([(-8,), (-4,), (0,)], [(1,)], strides=(4, 2, 1))
    assert pattern_search(pattern, bowl) == (9,)
    # Beyond 0 in strides of 4, then 6 and 10 beside 8, then 7 and 9.
    assert bowl.asked == [(-8,), (-4,), (0,), (4,), (8,), (12,), (10,), (6,), (9,), (7,)]


def test_of_equal_points_the_first_is_kept_and_the_search_ends() -> None:
    pattern = Pattern([(3, 3), (0, 0)], [(1, 0), (0, 1)], strides=(1,))
    assert pattern_search(pattern, lambda points: [1.0] * len(points)) == (3, 3)
    assert pattern_search(pattern, lambda points: [inf] * len(points)) == (3, 3)


@pytest.mark.parametrize("wall", [2, 5])
def test_points_that_do_not_count_are_a_wall(wall: int) -> None:
    def evaluate(points: Sequence[Point]) -> list[float]:
        return [inf if x > wall else -x for (x,) in points]

    assert pattern_search(Pattern([(0,)], [(1,)], strides=(4, 2, 1)), evaluate) == (wall,)
