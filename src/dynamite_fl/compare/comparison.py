"""A comparison from start to end: which runs it has, in which order, and what they showed.

Every contender is run with every seed. In hindsight mode, fixed settings are run beside them: one
for each number of local steps on the first seed, then all batch sizes for the best numbers of local
steps, then the best settings on the other seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dynamite_fl.compare.contenders import (
    Contender,
    Run,
    contender_of,
    contenders_of,
    fixed_contender,
    result_of,
    runs_of,
    with_buffers,
)
from dynamite_fl.compare.hindsight import (
    FINALISTS,
    FixedSetting,
    Hindsight,
    look_back,
    rank_settings,
    settings_grid,
    settings_near,
    settings_to_start_with,
)
from dynamite_fl.compare.parallel import Watcher, run_all
from dynamite_fl.compare.summary import (
    FEDAVG,
    ContenderSummary,
    RunResult,
    Target,
    choose_target,
    summarize,
    summary_to_json,
)
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.errors import JobError
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.tracking.track import prepare_trackers
from dynamite_fl.training.cohort import draw_cohort
from dynamite_fl.training.loop import Training


@dataclass(frozen=True)
class ComparisonRequest:
    """What to compare.

    Attributes:
        job: The job that all runs have in common.
        controllers: Names of the controllers; None for all that need no settings.
        buffers: Buffers with each of which every controller is run; None for the job's own.
        seeds: Number of seeds, from the job's own on.
        target: The accuracy to reach; None for FedAvg's mean.
        hindsight: Whether to search for the best fixed setting too.
        folder: Folder of the comparison, with a folder for each run.
        data_dir: Folder of the datasets; None for the default.
        jobs: Number of runs at a time.
    """

    job: TrainingJob
    controllers: Sequence[str] | None
    buffers: Sequence[str] | None
    seeds: int
    target: float | None
    hindsight: bool
    folder: Path
    data_dir: Path | None
    jobs: int

    @property
    def seed_values(self) -> list[int]:
        """The seeds themselves."""
        first = int(self.job.tables["training"].get("seed") or 0)
        return list(range(first, first + self.seeds))


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a comparison showed.

    Attributes:
        request: What was compared.
        contenders: Summaries of the contenders, the most accurate first; empty if no run finished.
        target: The accuracy to reach; None if no run finished.
        hindsight: The best fixed setting; None if it was not searched for.
        failures: The reasons why runs failed, by the name of the run.
    """

    request: ComparisonRequest
    contenders: Sequence[ContenderSummary]
    target: Target | None
    hindsight: Hindsight | None
    failures: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return all of it as values for JSON, in which NaN and infinity may still occur."""
        if self.target is None:
            return {"error": "no run finished", "failed": self.failures}
        accuracy = self.target.accuracy
        values = {
            "job": self.request.job.tables,
            "seeds": self.request.seed_values,
            "target": accuracy,
            "target_is_mean_of": self.target.mean_of,
            "best": self.contenders[0].contender,
            "controllers": [summary_to_json(summary, accuracy) for summary in self.contenders],
            "failed": self.failures,
        }
        if self.hindsight is not None:
            values["hindsight"] = {
                "best": summary_to_json(self.hindsight.best, accuracy),
                "gap": self.hindsight.gap,
                "gap_deviation": self.hindsight.deviation,
                "covered": self.hindsight.covered,
                "first_seed": [
                    {
                        "local_steps": setting.local_steps,
                        "batch_size": setting.batch_size,
                        "accuracy": accuracy,
                    }
                    for setting, accuracy in self.hindsight.tried.items()
                ],
            }
        return values


class ComparisonWatcher(Watcher, Protocol):
    """Someone who follows the runs of a comparison."""

    def more(self, runs: int, finished: int) -> None:
        """Take note of more runs, some of which were finished before."""
        ...


@dataclass
class _Runs:
    """The runs of a comparison that were played so far."""

    request: ComparisonRequest
    watcher: ComparisonWatcher
    results: list[RunResult] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def play(self, runs: Sequence[Run]) -> None:
        """Play the runs that are not finished, and keep the results of all of them."""
        waiting = [run for run in runs if not run.is_finished]
        self.watcher.more(len(runs), finished=len(runs) - len(waiting))
        request = self.request
        self.failures |= run_all(waiting, request.data_dir, request.jobs, self.watcher)
        for run in runs:
            if run.name not in self.failures:
                result = result_of(run)
                if isinstance(result, str):
                    self.failures[run.name] = result
                else:
                    self.results.append(result)

    def results_of(self, contenders: Sequence[Contender]) -> list[RunResult]:
        """Return the results of some contenders, in their order."""
        names = [contender.name for contender in contenders]
        return [result for name in names for result in self.results if result.contender == name]


def compare(request: ComparisonRequest, watcher: ComparisonWatcher) -> Comparison:
    """Play all runs of a comparison that are not finished, and summarize all of them.

    Raises:
        JobError: The job or an option cannot be used.
        KeyboardInterrupt: The runs were interrupted; they can resume from their folders.
    """
    contenders = _contenders(request)
    seeds = request.seed_values
    runs = runs_of(request.job, contenders, seeds, request.folder)
    training = build_training(runs[0].job, request.data_dir)  # errors show before any run starts
    prepare_trackers(request.job.trackers, request.folder)
    search = _FixedSearch.plan(request, training, contenders)
    del training
    played = _Runs(request, watcher)
    played.play([*runs, *runs_of(request.job, search.start(), seeds[:1], request.folder)])
    played.play(runs_of(request.job, search.refine(played), seeds[:1], request.folder))
    played.play(runs_of(request.job, search.finish(played), seeds[1:], request.folder))
    return _summarize(request, contenders, search.tried, played)


def _contenders(request: ComparisonRequest) -> list[Contender]:
    contenders = contenders_of(request.job, request.controllers)
    if request.hindsight and FEDAVG not in (contender.name for contender in contenders):
        contenders.append(contender_of(request.job, FEDAVG))  # gaps are measured from it
    if request.buffers is None:
        return contenders
    if request.hindsight:
        raise JobError("--hindsight is for one buffer: set stream.buffer instead of --buffers")
    return with_buffers(request.job, contenders, request.buffers)


@dataclass
class _FixedSearch:
    """The search for the best fixed setting; it tries nothing if the grid is empty.

    Attributes:
        grid: All settings that may be tried.
        first: The settings that are tried at first.
        tried: The contenders of all settings that were tried.
    """

    grid: list[FixedSetting] = field(default_factory=list)
    first: list[FixedSetting] = field(default_factory=list)
    tried: list[Contender] = field(default_factory=list)

    @classmethod
    def plan(
        cls, request: ComparisonRequest, training: Training, contenders: Sequence[Contender]
    ) -> "_FixedSearch":
        """Lay out the grid, without the setting of FedAvg, which is a contender anyway."""
        if not request.hindsight:
            return cls()
        schedule = training.schedule
        cohort = draw_cohort(training.fleet.samples, schedule.selection, schedule.seed, 1)
        table = next(contender.table for contender in contenders if contender.name == FEDAVG)
        known = FixedSetting(
            table.get("local_steps", FedAvg.local_steps), table.get("batch_size", FedAvg.batch_size)
        )
        fleet = training.fleet.subset(cohort)
        grid = settings_grid(fleet, training.limits, known)
        return cls(grid, settings_to_start_with(fleet, training.limits, grid))

    def start(self) -> list[Contender]:
        """Return the settings to try first."""
        return self._try(self.first)

    def refine(self, played: _Runs) -> list[Contender]:
        """Return the settings near the best so far that were not tried."""
        near = settings_near(self._best(played), self.grid)
        return self._try([setting for setting in near if setting not in self.first])

    def finish(self, played: _Runs) -> list[Contender]:
        """Return the best settings, to be run on the other seeds."""
        return [fixed_contender(setting) for setting in self._best(played)[:FINALISTS]]

    def _try(self, settings: Sequence[FixedSetting]) -> list[Contender]:
        contenders = [fixed_contender(setting) for setting in settings]
        self.tried += contenders
        return contenders

    def _best(self, played: _Runs) -> list[FixedSetting]:
        return list(rank_settings(played.results_of(self.tried)))


def _summarize(
    request: ComparisonRequest,
    contenders: Sequence[Contender],
    tried: Sequence[Contender],
    played: _Runs,
) -> Comparison:
    results = played.results_of(contenders)
    if not results:
        return Comparison(request, (), None, None, played.failures)
    target = choose_target(results, request.target)
    summaries = summarize(results, target.accuracy)
    hindsight = None
    if request.hindsight:
        hindsight = look_back(played.results_of(tried), summaries, target.accuracy)
    return Comparison(request, summaries, target, hindsight, played.failures)
