"""The runs of an experiment: where they are, how to run them, and what they came to.

What a finished run came to is read from its record (``run_record.py``), which is made from its
folder first. A run whose folder is gone and whose record is there is finished too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dynamite_fl.compare.contenders import NoResult, Run, refuse_other_jobs, result_of
from dynamite_fl.compare.parallel import Watcher, run_all
from dynamite_fl.experiments.experiment import Experiment, TheoremQuestion
from dynamite_fl.experiments.measures import burst_round
from dynamite_fl.experiments.origin import Origin, current_origin, read_origins, record_origin
from dynamite_fl.experiments.outcome import Outcome, Plan
from dynamite_fl.experiments.run_record import (
    RunRecord,
    read_record,
    record_file,
    write_record,
)
from dynamite_fl.experiments.theorem import load_plan, propose, save_plan
from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.training.history import History


@dataclass(frozen=True)
class ExperimentRuns:
    """The runs of an experiment at one scale.

    Attributes:
        experiment: The experiment.
        scale: One of ``SCALES``.
        seeds: The number of seeds, from 0 on.
        root: The folder of all experiments.
    """

    experiment: Experiment
    scale: str
    seeds: int
    root: Path

    @property
    def folder(self) -> Path:
        """The folder of the figure, the data and the verdict."""
        return self.root / self.scale / self.experiment.name

    @property
    def run_folders(self) -> Path:
        """The parent of its run folders, which experiments that are alike share."""
        return self.root / self.scale / self.experiment.runs_from

    def by_panel(self) -> dict[str, list[Run]]:
        """Return the runs of each panel.

        Raises:
            RunFolderError: A record is damaged, or a record or a folder is of another job.
        """
        runs = {
            panel: [
                self._run(panel, contender, seed)
                for seed in range(self.seeds)
                for contender in self.experiment.contenders
            ]
            for panel in self.experiment.panels_at(self.scale)
        }
        for run in (run for of_panel in runs.values() for run in of_panel):
            _refuse_other_job(run)
        return runs

    def all(self) -> list[Run]:
        """Return all runs, panel by panel."""
        return [run for runs in self.by_panel().values() for run in runs]

    def waiting(self) -> list[Run]:
        """Return the runs that are not finished."""
        return [run for run in self.all() if not is_finished(run)]

    def _run(self, panel: str, contender: str, seed: int) -> Run:
        job = self.experiment.job_of(self.scale, panel, contender, seed)
        return Run(contender, seed, self.run_folders / f"{panel}-{contender}-{seed}", job)

    def plan_file(self, panel: str, seed: int) -> Path:
        """Return the file that keeps the plan that Theorem 2 proposes for a panel."""
        return self.run_folders / f"theorem-{panel}-{seed}.json"

    def theorem_questions(self) -> Iterator[tuple[str, int, TrainingJob, TheoremQuestion]]:
        """Yield what Theorem 2 is asked: a panel, a seed, their job and the question."""
        question = self.experiment.theorem.get(self.scale)
        if question is None:
            return
        contender = next(iter(self.experiment.contenders))
        for panel in self.experiment.panels_at(self.scale):
            for seed in range(self.seeds):
                job = self.experiment.job_of(self.scale, panel, contender, seed)
                yield panel, seed, job, question


def is_finished(run: Run) -> bool:
    """Return whether a run need not be trained: it has a record, or its folder is finished."""
    return record_file(run.path).exists() or run.is_finished


def _refuse_other_job(run: Run) -> None:
    """Refuse a record of another job, or a folder of another job if there is no record."""
    file = record_file(run.path)
    if file.exists():
        read_record(file, run.job)
    else:
        refuse_other_jobs([run])


def record_of(run: Run) -> RunRecord | NoResult:
    """Return the record of a finished run, and write it if there is none yet.

    Raises:
        RunFolderError: The record is damaged or of another job.
    """
    file = record_file(run.path)
    if not file.exists():
        result = result_of(run)
        if isinstance(result, NoResult):
            return result
        write_record(file, run.job, read_origins(run.path), result.history)
    return read_record(file, run.job)


def run_missing(
    runs: ExperimentRuns, data_dir: Path | None, jobs: int, watcher: Watcher
) -> dict[str, str]:
    """Run all that is not finished.

    Returns:
        The reasons why runs failed, by the names of their folders.

    Raises:
        JobError: A job cannot be used, for example because its data is missing.
        KeyboardInterrupt: All processes have ended, and their work is kept.
    """
    waiting = runs.waiting()
    if waiting:
        build_training(waiting[0].job, data_dir)  # shows what is wrong before anything is written
    origin = current_origin()
    for run in waiting:
        record_origin(run.path, origin)
    ask_theorem(runs, data_dir)
    return run_all(waiting, data_dir, jobs, watcher)


def ask_theorem(runs: ExperimentRuns, data_dir: Path | None) -> None:
    """Compute and save the plans of Theorem 2 that are not saved yet."""
    for panel, seed, job, question in runs.theorem_questions():
        file = runs.plan_file(panel, seed)
        if load_plan(file, job, question) is None:
            save_plan(file, job, question, propose(job, question, data_dir))


def read_outcome(runs: ExperimentRuns) -> Outcome:
    """Read the records of all runs that are finished, and run nothing."""
    histories: dict[str, dict[str, dict[int, History]]] = {}
    bursts: dict[str, int] = {}
    failures: dict[str, str] = {}
    plans: dict[str, dict[int, Plan]] = {}
    origins: set[Origin] = set()
    by_panel = runs.by_panel()
    finished = [
        (p, run) for p, of_panel in by_panel.items() for run in of_panel if is_finished(run)
    ]
    for panel, run in finished:
        record = record_of(run)
        if isinstance(record, NoResult):
            failures[run.name] = record.reason
            continue
        by_contender = histories.setdefault(panel, {})
        by_contender.setdefault(run.contender, {})[run.seed] = record.history
        origins.update(record.origins)
        burst = burst_round(run.job.tables)
        if burst is not None:
            bursts[panel] = burst
    for panel, seed, job, question in runs.theorem_questions():
        plan = load_plan(runs.plan_file(panel, seed), job, question)
        if plan is not None:
            plans.setdefault(panel, {})[seed] = plan
    count = sum(map(len, by_panel.values()))
    return Outcome(histories, bursts, plans, failures, count, sorted(origins))
