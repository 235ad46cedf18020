"""A search over contenders: what it runs, and on which seeds."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from dynamite_fl.compare.contenders import Contender, Run
from dynamite_fl.compare.pattern_search import Pattern, Point
from dynamite_fl.compare.search import Search
from dynamite_fl.compare.summary import RunResult
from tests.compare.results import result

PATTERN = Pattern([(-4,), (0,), (4,)], [(1,)], strides=(4, 2, 1))


@dataclass
class Known:
    """A runner whose runs have known accuracies; a negative one stands for divergence."""

    results: dict[str, RunResult] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)

    def run(self, runs: Iterable[Run], *, searching: bool) -> None:
        assert searching
        for run in runs:
            place = int(run.contender.removeprefix("place"))
            self.asked.append((run.contender, run.seed))
            if place <= 7:
                final = 1 - abs(place - 6) / 20 + (0.1 if (place, run.seed) == (5, 1) else 0)
                self.results[run.path.name] = result(run.contender, run.seed, final)

    def rank(self, contender: str, seed: int) -> float:
        run = self.results.get(f"{contender}-{seed}")
        return float("inf") if run is None else -run.history.final

    def results_of(self, contenders: Iterable[str]) -> list[RunResult]:
        return [run for run in self.results.values() if run.contender in contenders]


def runs_of(contenders: Iterable[Contender], seeds: Iterable[int]) -> list[Run]:
    runs = [(contender.name, seed) for contender in contenders for seed in seeds]
    return [Run(name, seed, Path(f"{name}-{seed}"), cast(Any, None)) for name, seed in runs]


def contender_at(point: Point) -> Contender | None:
    """Return the same contender for all points below 0, and none below -5."""
    return None if point[0] < -5 else Contender(f"place{max(point[0], 0)}", {})


def test_trials_are_on_the_first_seed_and_the_best_on_all() -> None:
    runner = Known()
    search = Search(cast(Any, runner), runs_of, [0, 1, 2], contender_at)
    search.run(PATTERN)
    first = [name for name, seed in runner.asked if seed == 0]
    # 4 is better than 0 and than what comes below it, 8 diverges, and 6 is better than 2.
    assert set(first) == {"place0", "place4", "place8", "place2", "place6", "place7", "place5"}
    assert [each.name for each in search.ranked()][:2] == ["place6", "place7"]
    assert "place8" not in [each.name for each in search.ranked()]  # it diverged
    others = {pair for pair in runner.asked if pair[1] > 0}
    assert others == {("place6", 1), ("place6", 2), ("place7", 1), ("place7", 2)}
    assert len(search.results) == 6 + 4
