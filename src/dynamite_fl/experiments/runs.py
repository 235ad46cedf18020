"""The runs of an experiment: where they are, which are finished, and what they came to."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynamite_fl.compare import Run, refuse_other_jobs, result_of
from dynamite_fl.experiments import origin, theorem
from dynamite_fl.experiments.experiment import Experiment
from dynamite_fl.experiments.found import Found
from dynamite_fl.experiments.measures import burst_round
from dynamite_fl.experiments.origin import Origin
from dynamite_fl.report.history import History


@dataclass(frozen=True)
class Part:
    """A run, and which panel it belongs to."""

    panel: str
    run: Run


@dataclass(frozen=True)
class Plays:
    """An experiment at a scale, with so many seeds, in a folder.

    Attributes:
        experiment: Which.
        scale: One of ``SCALES``.
        seeds: How many, from 0 on.
        runs: The folder of all experiments.
    """

    experiment: Experiment
    scale: str
    seeds: int
    runs: Path

    @property
    def folder(self) -> Path:
        """Where figure, data and verdict go."""
        return self.runs / self.scale / self.experiment.name

    @property
    def pool(self) -> Path:
        """Where its run folders are, which experiments that are alike share."""
        return self.runs / self.scale / self.experiment.pool

    def parts(self) -> list[Part]:
        """Its runs, panel by panel.

        Raises:
            JobError: A folder holds a run of another job.
        """
        found = [
            Part(panel, self._run(panel, contender, seed))
            for panel in self.experiment.panels_at(self.scale)
            for seed in range(self.seeds)
            for contender in self.experiment.contenders
        ]
        refuse_other_jobs([part.run for part in found], "--runs")
        return found

    def has_last_seed(self) -> bool:
        """Whether a run of its last seed is finished."""
        last = [part.run for part in self.parts() if part.run.seed == self.seeds - 1]
        return any(run.is_finished for run in last)

    def _run(self, panel: str, contender: str, seed: int) -> Run:
        job = self.experiment.job_of(self.scale, panel, contender, seed)
        return Run(contender, seed, self.pool / f"{panel}-{contender}-{seed}", job)

    def plan_file(self, panel: str, seed: int) -> Path:
        """Where Theorem 2's answer for a panel is kept."""
        return self.pool / f"theorem-{panel}-{seed}.json"

    def questions(self) -> Iterator[tuple[str, int, theorem.Question]]:
        """What Theorem 2 is asked, by panel and seed."""
        wanted = self.experiment.theorem.get(self.scale)
        if wanted is None:
            return
        contender = next(iter(self.experiment.contenders))
        for panel in self.experiment.panels_at(self.scale):
            for seed in range(self.seeds):
                job = self.experiment.job_of(self.scale, panel, contender, seed)
                yield panel, seed, theorem.Question(job, wanted)

    def ask_theorem(self, data_dir: Path | None) -> None:
        """Have Theorem 2 answer what it has not."""
        for panel, seed, question in self.questions():
            file = self.plan_file(panel, seed)
            if not theorem.is_answered(file, question):
                theorem.save(file, question, theorem.asked(question, data_dir))


@dataclass(frozen=True)
class Gathered:
    """What is there of an experiment.

    Attributes:
        found: What claims are judged by.
        finished: How many runs are.
        wanted: How many there would be.
        seeds: Those that some finished run has.
        origins: By which states of the program they were played.
        failures: Why runs say nothing, by name.
    """

    found: Found
    finished: int
    wanted: int
    seeds: Sequence[int]
    origins: Sequence[Origin]
    failures: dict[str, str]


def gather(plays: Plays) -> Gathered:
    """Read all runs that are finished; nothing is played."""
    histories: dict[str, dict[str, dict[int, History]]] = {}
    bursts: dict[str, int] = {}
    failures: dict[str, str] = {}
    parts = plays.parts()
    finished = [part for part in parts if part.run.is_finished]
    for part in finished:
        run = part.run
        result = result_of(run)
        if isinstance(result, str):
            failures[run.name] = result
            continue
        of_panel = histories.setdefault(part.panel, {})
        of_panel.setdefault(run.contender, {})[run.seed] = result.history
        burst = burst_round(run.job.tables)
        if burst is not None:
            bursts[part.panel] = burst
    return Gathered(
        found=Found(histories, bursts, _plans(plays)),
        finished=len(finished) - len(failures),
        wanted=len(parts),
        seeds=sorted({part.run.seed for part in finished}),
        origins=_origins(part.run for part in finished),
        failures=failures,
    )


def _plans(plays: Plays) -> dict[str, dict[int, theorem.Plan]]:
    found: dict[str, dict[int, theorem.Plan]] = {}
    for panel, seed, question in plays.questions():
        if plan := theorem.load(plays.plan_file(panel, seed), question):
            found.setdefault(panel, {})[seed] = plan
    return found


def _origins(runs: Iterable[Run]) -> list[Origin]:
    found = {each for run in runs for each in origin.read(run.path)}
    return sorted(found, key=lambda each: (each.date, each.version, each.commit))
