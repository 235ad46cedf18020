"""A comparison: run every contender with every seed, and summarize the results.

With ``hindsight``, a grid search for the best fixed setting is run too. It has three parts: one
setting for each number of local steps on the first seed, then all batch sizes for the best numbers
of local steps on the first seed, then the best settings on the other seeds.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
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
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.tracking.track import prepare_trackers
from dynamite_fl.training.cohort import draw_cohort
from dynamite_fl.training.loop import Training
from dynamite_fl.training.run_folder import RunFolder


@dataclass(frozen=True)
class ComparisonRequest:
    """What to compare.

    Attributes:
        job: The job that all runs have in common.
        controllers: The names of the controllers; None for all that need no settings.
        buffers: The names of the buffers. Every controller is run with each of them. None for the
            job's own buffer.
        seeds: The number of seeds. The first one is the job's seed.
        target: The value of the leading metric to reach; None for FedAvg's mean.
        hindsight: Whether to search for the best fixed setting too.
        folder: The folder of the comparison, with a folder for each run.
        data_dir: The folder of the datasets; None for the default.
        jobs: The number of runs at the same time.
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
        """The seeds of the runs."""
        first = int(self.job.tables["training"].get("seed") or 0)
        return list(range(first, first + self.seeds))


@dataclass(frozen=True, eq=False)
class Comparison:
    """The results of a comparison.

    Attributes:
        request: What was compared.
        contenders: The summary of each contender, the best first; empty if no run finished.
        target: The value of the leading metric to reach; None if no run finished.
        hindsight: The best fixed setting; None if it was not searched for.
        failures: The reasons why runs failed, by the name of the run.
    """

    request: ComparisonRequest
    contenders: Sequence[ContenderSummary]
    target: Target | None
    hindsight: Hindsight | None
    failures: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as values for JSON; they may contain NaN and infinity."""
        if self.target is None:
            return {"error": "no run finished", "failed": self.failures}
        target = self.target.value
        values = {
            "job": self.request.job.tables,
            "seeds": self.request.seed_values,
            "metric": asdict(self.target.metric),
            "target": target,
            "target_is_mean_of": self.target.mean_of,
            "best": self.contenders[0].contender,
            "controllers": [summary_to_json(summary, target) for summary in self.contenders],
            "failed": self.failures,
        }
        if self.hindsight is not None:
            values["hindsight"] = {
                "best": summary_to_json(self.hindsight.best, target),
                "gap": self.hindsight.gap,
                "gap_deviation": self.hindsight.deviation,
                "covered": self.hindsight.covered,
                "first_seed": [
                    {
                        "local_steps": setting.local_steps,
                        "batch_size": setting.batch_size,
                        "final": final,
                    }
                    for setting, final in self.hindsight.tried.items()
                ],
            }
        return values


class ComparisonWatcher(Watcher, Protocol):
    """An object that is notified of the progress of a comparison."""

    def more(self, runs: int, finished: int) -> None:
        """Add so many runs, some of which were finished before this comparison started."""
        ...


@dataclass
class _Runner:
    """Runs the runs of a comparison, and collects their results.

    Attributes:
        request: What to compare.
        watcher: Is notified of the progress of runs.
        results: The results of all finished runs so far.
        failures: The reasons why runs failed, by the name of the run.
    """

    request: ComparisonRequest
    watcher: ComparisonWatcher
    results: list[RunResult] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def run(self, runs: Sequence[Run]) -> None:
        """Run the runs that are not finished, and add the results of all of them."""
        unfinished = [run for run in runs if not run.is_finished]
        self.watcher.more(len(runs), finished=len(runs) - len(unfinished))
        request = self.request
        self.failures |= run_all(unfinished, request.data_dir, request.jobs, self.watcher)
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
    """Run all runs of a comparison that are not finished, and summarize all of them.

    Raises:
        JobError: The job or an option cannot be used.
        KeyboardInterrupt: The runs were interrupted; they can resume from their folders.
    """
    contenders = _contenders(request)
    job, seeds, folder = request.job, request.seed_values, request.folder
    runs = runs_of(job, contenders, seeds, folder)
    search = _prepare(request, runs, contenders)
    runner = _Runner(request, watcher)
    runner.run([*runs, *runs_of(job, search.first_settings(), seeds[:1], folder)])
    runner.run(runs_of(job, search.settings_near_best(runner), seeds[:1], folder))
    runner.run(runs_of(job, search.best_settings(runner), seeds[1:], folder))
    return _summarize(request, contenders, search.tried, runner)


def _prepare(
    request: ComparisonRequest, runs: Sequence[Run], contenders: Sequence[Contender]
) -> "_FixedSearch":
    """Find mistakes in the job before any run starts, and plan the search for fixed settings.

    Raises:
        RunFolderError: A folder holds a run that was begun with other data.
    """
    simple = runs[0].job.with_tables(controller={"name": FEDAVG})  # which needs no pilot run
    training = build_training(simple, request.data_dir)
    with closing(training.engine):
        data = fingerprint(training.engine.task)
        drawn = str(request.job.tables["task"].get("dataset", "")).startswith("synthetic")
        for run in runs:
            same_task = not drawn or run.seed == runs[0].seed  # the seed draws synthetic data
            if RunFolder(run.path).has_rounds and same_task:
                RunFolder(run.path).check_same_data(data)
        prepare_trackers(request.job.trackers, request.folder)
        return _FixedSearch.plan(request, training, contenders)


def _contenders(request: ComparisonRequest) -> list[Contender]:
    """Return the contenders, with FedAvg among them if ``hindsight`` needs it."""
    contenders = contenders_of(request.job, request.controllers)
    if request.hindsight and FEDAVG not in (contender.name for contender in contenders):
        contenders.append(contender_of(request.job, FEDAVG))  # the gap is measured from FedAvg
    if request.buffers is None:
        return contenders
    if request.hindsight:
        raise JobError("--hindsight is for one buffer: set stream.buffer instead of --buffers")
    return with_buffers(request.job, contenders, request.buffers)


@dataclass
class _FixedSearch:
    """The search for the best fixed setting. With an empty grid, it tries nothing.

    Its methods return the settings to run next, as contenders.

    Attributes:
        grid: All settings that may be tried.
        first: The settings that are tried first.
        tried: All settings that were tried so far, as contenders.
    """

    grid: list[FixedSetting] = field(default_factory=list)
    first: list[FixedSetting] = field(default_factory=list)
    tried: list[Contender] = field(default_factory=list)

    @classmethod
    def plan(
        cls, request: ComparisonRequest, training: Training, contenders: Sequence[Contender]
    ) -> "_FixedSearch":
        """Return the search for a comparison. Its grid is empty without ``hindsight``.

        The setting of FedAvg is not in the grid, because FedAvg is a contender anyway.
        """
        if not request.hindsight:
            return cls()
        schedule = training.schedule
        cohort = draw_cohort(training.fleet.samples, schedule.selection, schedule.seed, 1)
        table = next(contender.table for contender in contenders if contender.name == FEDAVG)
        fedavg = FixedSetting(
            table.get("local_steps", FedAvg.local_steps), table.get("batch_size", FedAvg.batch_size)
        )
        fleet = training.fleet.subset(cohort)
        grid = settings_grid(fleet, training.limits, fedavg)
        return cls(grid, settings_to_start_with(fleet, training.limits, grid))

    def first_settings(self) -> list[Contender]:
        """Return one setting for each number of local steps."""
        return self._try(self.first)

    def settings_near_best(self, runner: _Runner) -> list[Contender]:
        """Return the settings with the best numbers of local steps that were not tried yet."""
        near = settings_near(self._ranked(runner), self.grid)
        return self._try([setting for setting in near if setting not in self.first])

    def best_settings(self, runner: _Runner) -> list[Contender]:
        """Return the best settings, which are run with the other seeds."""
        return [fixed_contender(setting) for setting in self._ranked(runner)[:FINALISTS]]

    def _try(self, settings: Sequence[FixedSetting]) -> list[Contender]:
        """Return settings as contenders, and count them as tried."""
        contenders = [fixed_contender(setting) for setting in settings]
        self.tried += contenders
        return contenders

    def _ranked(self, runner: _Runner) -> list[FixedSetting]:
        """Return the settings that were tried, the best first."""
        return list(rank_settings(runner.results_of(self.tried)))


def _summarize(
    request: ComparisonRequest,
    contenders: Sequence[Contender],
    tried: Sequence[Contender],
    runner: _Runner,
) -> Comparison:
    results = runner.results_of(contenders)
    if not results:
        return Comparison(request, (), None, None, runner.failures)
    target = choose_target(results, request.target)
    summaries = summarize(results, target.value)
    hindsight = None
    if request.hindsight:
        hindsight = look_back(runner.results_of(tried), summaries, target.value)
    return Comparison(request, summaries, target, hindsight, runner.failures)
