"""A search for the best point of an integer grid that needs few evaluations.

R. Hooke, T. Jeeves: "Direct Search" Solution of Numerical and Statistical Problems. JACM 1961. The
search goes from the best point so far along one direction after the other, both ways, and as far
as it gets better. If no direction helps any more, it goes on with shorter strides. It draws nothing
at random, and it evaluates no point twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Point = tuple[int, ...]
Evaluate = Callable[[Sequence[Point]], Sequence[float]]


@dataclass(frozen=True)
class Pattern:
    """Where a search begins, and where it may go.

    Attributes:
        start: The points to begin with.
        directions: The directions in which points are changed. Each is tried both ways.
        strides: The lengths of strides, the longest first.
        sweeps: How often all directions are tried with one stride, at most.
    """

    start: Sequence[Point]
    directions: Sequence[Point]
    strides: Sequence[int]
    sweeps: int = 2


def pattern_search(pattern: Pattern, evaluate: Evaluate) -> Point:
    """Return the best point that the search finds.

    Args:
        pattern: The first points, and the steps to other points.
        evaluate: Returns a number for each of some points, smaller if the point is better, and
            infinity for a point that does not count. It is asked for several points at a time,
            so that they can be evaluated in parallel.

    Example:
        >>> bowl = lambda points: [(x - 7) ** 2 + (y + 2) ** 2 for x, y in points]
        >>> pattern_search(Pattern([(0, 0)], [(1, 0), (0, 1)], strides=(4, 1)), bowl)
        (7, -2)
    """
    search = _Search(evaluate)
    best = search.best_of(pattern.start)
    for stride in pattern.strides:
        for _ in range(pattern.sweeps):
            before = best
            for direction in pattern.directions:
                best = search.along(best, tuple(stride * part for part in direction))
            if best == before:
                break
    return best


@dataclass
class _Search:
    """The numbers of all points that were evaluated."""

    evaluate: Evaluate
    known: dict[Point, float] = field(default_factory=dict)

    def along(self, best: Point, step: Point) -> Point:
        """Take one step both ways, and go on in the better way while it helps."""
        back = tuple(-part for part in step)
        after = self.best_of([best, _moved(best, step), _moved(best, back)])
        if after == best:
            return best
        step = step if after == _moved(best, step) else back
        while True:
            best, after = after, self.best_of([after, _moved(after, step)])
            if after == best:
                return best

    def best_of(self, points: Sequence[Point]) -> Point:
        """Return the best of some points; of equal ones, the first."""
        new = [point for point in dict.fromkeys(points) if point not in self.known]
        if new:
            self.known |= zip(new, self.evaluate(new), strict=True)
        return min(points, key=self.known.__getitem__)


def _moved(point: Point, step: Point) -> Point:
    return tuple(a + b for a, b in zip(point, step, strict=True))
