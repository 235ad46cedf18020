"""Searches in hindsight: for a method's best rate, and for the best fixed setting.

A search runs its trials on the first seed, and the best of them on the other seeds too. The mean
over all seeds then says which is the best. So the seeds that tune are the seeds that are reported.
That favours what is tuned over a controller, which has one run for each seed.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dynamite_fl.compare.contenders import Contender, Run
from dynamite_fl.compare.pattern_search import Pattern, Point, pattern_search
from dynamite_fl.compare.runner import Runner
from dynamite_fl.compare.summary import RunResult

FINALISTS = 2  # trials that are run on all seeds

# Returns the runs of some contenders with some seeds.
RunsOf = Callable[[Iterable[Contender], Iterable[int]], list[Run]]
# Returns the contender at a point of a grid; None if there is none.
ContenderAt = Callable[[Point], Contender | None]


@dataclass
class Search:
    """A search for the best of the contenders at the points of a grid.

    Attributes:
        runner: Runs the trials.
        runs_of: Returns the runs of contenders.
        seeds: All seeds.
        contender_at: Returns the contender at a point.
        tried: All contenders that were tried, by their names.
    """

    runner: Runner
    runs_of: RunsOf
    seeds: Sequence[int]
    contender_at: ContenderAt
    tried: dict[str, Contender] = field(default_factory=dict)

    def run(self, pattern: Pattern) -> None:
        """Search on the first seed, and run the best trials on the other seeds.

        Several points may have the same contender, which is run once.
        """
        pattern_search(pattern, self._evaluate)
        finalists = self.ranked()[:FINALISTS]
        self.runner.run(self.runs_of(finalists, self.seeds[1:]), searching=True)

    def ranked(self) -> list[Contender]:
        """Return the trials that have a result on the first seed, the best first."""
        finished = [each for each in self.tried.values() if self._rank(each) < math.inf]
        return sorted(finished, key=self._rank)

    @property
    def results(self) -> list[RunResult]:
        """The results of all trials."""
        return self.runner.results_of(self.tried)

    def _evaluate(self, points: Sequence[Point]) -> list[float]:
        at_points = [self.contender_at(point) for point in points]
        asked = {each.name: each for each in at_points if each is not None}
        self.tried |= asked
        self.runner.run(self.runs_of(asked.values(), self.seeds[:1]), searching=True)
        return [math.inf if each is None else self._rank(each) for each in at_points]

    def _rank(self, contender: Contender) -> float:
        """Return how bad a trial is on the first seed."""
        return self.runner.rank(contender.name, self.seeds[0])
