"""A comparison: run every contender with every seed, and summarize the results.

With ``tune``, the best rates of some methods are searched, which then are contenders too. With
``hindsight``, FedAvg is one of these methods, and the best fixed setting is searched as well.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dynamite_fl.compare.contenders import (
    Contender,
    Run,
    contender_of,
    contenders_of,
    fixed_contender,
    runs_of,
    with_buffers,
)
from dynamite_fl.compare.fixed_settings import FixedSettings
from dynamite_fl.compare.hindsight import Hindsight, look_back
from dynamite_fl.compare.names import ContenderName
from dynamite_fl.compare.parallel import Workers
from dynamite_fl.compare.pattern_search import Point
from dynamite_fl.compare.rates import FIRST_RATES, place_of
from dynamite_fl.compare.runner import ComparisonWatcher, Runner
from dynamite_fl.compare.search import ContenderAt, Search
from dynamite_fl.compare.summary import (
    FEDAVG,
    ContenderSummary,
    Target,
    choose_target,
    summarize,
    summary_to_json,
)
from dynamite_fl.compare.tuning import Tuned, name_at, rates_to_try, tuned_by
from dynamite_fl.errors import JobError
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.task.fingerprint import fingerprint
from dynamite_fl.tracking.track import prepare_trackers
from dynamite_fl.training.cohort import draw_cohort
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
        tune: The methods whose best rates are searched.
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
    tune: Sequence[str]
    hindsight: bool
    folder: Path
    data_dir: Path | None
    jobs: int

    @property
    def seed_values(self) -> list[int]:
        """The seeds of the runs."""
        first = int(self.job.tables["training"].get("seed") or 0)
        return list(range(first, first + self.seeds))

    @property
    def methods_to_tune(self) -> list[str]:
        """The methods whose best rates are searched. With ``hindsight``, FedAvg is one of them."""
        return list(dict.fromkeys([*([FEDAVG] if self.hindsight else []), *self.tune]))


@dataclass(frozen=True, eq=False)
class Comparison:
    """The results of a comparison.

    Attributes:
        request: The job, the controllers and the seeds that were compared.
        contenders: The summary of each contender, the best first; empty if no run finished.
        target: The value of the leading metric to reach; None if no run finished.
        tuned: The methods whose best rates were searched.
        hindsight: The best fixed setting; None if it was not searched for.
        failures: The reasons why runs failed, by the name of the run.
        diverged: The reasons why trials of a search diverged, by the name of the run.
    """

    request: ComparisonRequest
    contenders: Sequence[ContenderSummary]
    target: Target | None
    tuned: Sequence[Tuned]
    hindsight: Hindsight | None
    failures: dict[str, str]
    diverged: dict[str, str]

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
            "tuned": {
                tuned.method: {"best": tuned.best, "first_seed": tuned.tried}
                for tuned in self.tuned
            },
            "failed": self.failures,
            "diverged": self.diverged,
        }
        if self.hindsight is not None:
            values["hindsight"] = {
                "best": summary_to_json(self.hindsight.best, target),
                "fedavg": None if (fedavg := self.hindsight.fedavg) is None else fedavg.contender,
                "gap": self.hindsight.gap,
                "gap_deviation": self.hindsight.deviation,
                "covered": self.hindsight.covered,
                "first_seed": [
                    {
                        "learning_rate": setting.learning_rate,
                        "local_steps": setting.local_steps,
                        "batch_size": setting.batch_size,
                        "final": final,
                    }
                    for setting, final in self.hindsight.tried.items()
                ],
            }
        return values


def compare(request: ComparisonRequest, watcher: ComparisonWatcher) -> Comparison:
    """Run all runs of a comparison that are not finished, and summarize all of them.

    Raises:
        JobError: The job or an option cannot be used.
        RunFolderError: The folder is in use, or holds runs of another job.
        KeyboardInterrupt: The runs were interrupted; they can resume from their folders.
    """
    contenders = _contenders(request)
    for method in request.methods_to_tune:
        _tuned_contender(request.job, method, rates_to_try(method).start[0])  # refuses a wrong name
    runs = _runs(request, contenders, request.seed_values)
    settings = _prepare(request, runs)
    with (
        RunFolder(request.folder).held(),
        Workers(request.data_dir, request.jobs) as workers,
    ):
        runner = Runner(workers, watcher)
        runner.run(runs)
        tuned = {method: _tune(request, runner, method) for method in request.methods_to_tune}
        fixed = None
        if request.hindsight:
            fixed = _search(request, runner, partial(_fixed_contender, settings))
            fixed.run(settings.pattern(_best_place(tuned[FEDAVG])))
    return _summarize(request, contenders, tuned, fixed, runner)


def _prepare(request: ComparisonRequest, runs: Sequence[Run]) -> FixedSettings:
    """Find mistakes in the job before any run starts, and return the fixed settings of the job.

    Raises:
        RunFolderError: A folder holds a run that was begun with other data.
    """
    simple = request.job.with_tables(controller={"name": FEDAVG})  # which needs no pilot run
    training = build_training(simple, request.data_dir)
    with closing(training.engine):
        data = fingerprint(training.engine.task)
        drawn = str(request.job.tables["task"].get("dataset", "")).startswith("synthetic")
        for run in runs:
            same_task = not drawn or run.seed == runs[0].seed  # the seed draws synthetic data
            if RunFolder(run.path).has_rounds and same_task:
                RunFolder(run.path).check_same_data(data)
        prepare_trackers(request.job.trackers, request.folder)
        schedule = training.schedule
        cohort = draw_cohort(training.fleet.samples, schedule.selection, schedule.seed, 1)
        return FixedSettings(training.fleet.subset(cohort.clients), training.planned_limits)


def _contenders(request: ComparisonRequest) -> list[Contender]:
    """Return the contenders, without those that searches add."""
    contenders = contenders_of(request.job, request.controllers)
    if request.buffers is None:
        return contenders
    for option, is_given in (("--hindsight", request.hindsight), ("--tune", bool(request.tune))):
        if is_given:
            raise JobError(f"{option} is for one buffer: set stream.buffer instead of --buffers")
    return with_buffers(request.job, contenders, request.buffers)


def _runs(
    request: ComparisonRequest, contenders: Iterable[Contender], seeds: Iterable[int]
) -> list[Run]:
    return runs_of(request.job, contenders, seeds, request.folder)


def _search(request: ComparisonRequest, runner: Runner, contender_at: ContenderAt) -> Search:
    return Search(runner, partial(_runs, request), request.seed_values, contender_at)


def _tune(request: ComparisonRequest, runner: Runner, method: str) -> Search:
    """Search for the best rate of a method."""
    search = _search(request, runner, partial(_tuned_contender, request.job, method))
    search.run(rates_to_try(method))
    return search


def _tuned_contender(job: TrainingJob, method: str, point: Point) -> Contender:
    return contender_of(job, str(name_at(method, point)))


def _fixed_contender(settings: FixedSettings, point: Point) -> Contender | None:
    setting = settings.at(point)
    return None if setting is None else fixed_contender(setting)


def _best_place(fedavg: Search) -> int:
    """Return the place of FedAvg's best rate on the first seed; a usual one if all diverged."""
    ranked = fedavg.ranked()
    rate = ContenderName.parse(ranked[0].name).rate if ranked else None
    return FIRST_RATES[0] if rate is None else place_of(rate)


def _summarize(
    request: ComparisonRequest,
    contenders: Sequence[Contender],
    searches: Mapping[str, Search],
    fixed: Search | None,
    runner: Runner,
) -> Comparison:
    """Summarize contenders and the best of each search."""
    tuned = [
        tuned_by(method, search.results) for method, search in searches.items() if search.results
    ]
    names = [*(contender.name for contender in contenders), *(each.best for each in tuned)]
    results = runner.results_of(names)
    failures, diverged = runner.failures, runner.diverged
    if not results:
        return Comparison(request, (), None, (), None, failures, diverged)
    target = choose_target(results, request.target)
    summaries = summarize(results, target.value)
    hindsight = None
    if fixed is not None:
        hindsight = look_back(fixed.results, summaries, target.value)
    return Comparison(request, summaries, target, tuned, hindsight, failures, diverged)
