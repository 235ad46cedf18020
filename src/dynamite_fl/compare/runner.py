"""Runs the runs of a comparison that are not finished, and collects the results of all of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dynamite_fl.compare.contenders import NoResult, Run, result_of
from dynamite_fl.compare.parallel import Watcher, Workers
from dynamite_fl.compare.summary import RunResult


class ComparisonWatcher(Watcher, Protocol):
    """An object that is notified of the progress of a comparison."""

    def more(self, runs: int, finished: int) -> None:
        """Add so many runs, some of which were finished before this comparison started."""
        ...


@dataclass
class Runner:
    """Runs the runs of a comparison, and collects their results.

    Attributes:
        workers: The processes that run them.
        watcher: Is notified of the progress of runs.
        results: The results of all finished runs so far, by the name of the run.
        failures: The reasons why runs failed, by the name of the run.
        diverged: The reasons why runs of a search diverged, by the name of the run. That is no
            failure of a search, which tries rates because nobody knows which are too large.
    """

    workers: Workers
    watcher: ComparisonWatcher
    results: dict[str, RunResult] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    diverged: dict[str, str] = field(default_factory=dict)

    def run(self, runs: Sequence[Run], *, searching: bool = False) -> None:
        """Run the runs that are not finished, and add the results of all of them.

        Args:
            runs: The runs. Those that were given before are left out.
            searching: Whether these are trials of a search, which may diverge.
        """
        known = {**self.results, **self.failures, **self.diverged}
        runs = [run for run in runs if run.name not in known]
        unfinished = [run for run in runs if not run.is_finished]
        self.watcher.more(len(runs), finished=len(runs) - len(unfinished))
        failures = self.workers.run(unfinished, self.watcher)
        for run in runs:
            if run.name in failures and not run.is_finished:
                self.failures[run.name] = failures[run.name]
                continue
            result = result_of(run)
            if isinstance(result, RunResult):
                self.results[run.name] = result
            else:
                self._note(run, result, searching)

    def _note(self, run: Run, result: NoResult, searching: bool) -> None:
        where = self.diverged if searching and result.has_diverged else self.failures
        where[run.name] = result.reason

    def results_of(self, contenders: Iterable[str]) -> list[RunResult]:
        """Return the results of some contenders, in the order of their names."""
        every = self.results.values()
        names = dict.fromkeys(contenders)
        return [result for name in names for result in every if result.contender == name]

    def rank(self, contender: str, seed: int) -> float:
        """Return a number that is smaller for a better result; infinity if there is none."""
        for result in self.results.values():
            if (result.contender, result.seed) == (contender, seed):
                return result.history.leading_metric.sort_key(result.history.final)
        return math.inf
