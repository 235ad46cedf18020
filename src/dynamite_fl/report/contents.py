"""What a report shows: runs, and comparisons of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynamite_fl._leading_metric import LeadingMetric
from dynamite_fl.compare.hindsight import Hindsight
from dynamite_fl.compare.summary import ContenderSummary, Target, title_of
from dynamite_fl.compare.tuning import Tuned
from dynamite_fl.records import Limits
from dynamite_fl.training.history import History

DIVERGED = "diverged"  # what ended a run whose weights were no longer numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportedRun:
    """A training and what is known about it.

    Attributes:
        name: Name of the run's folder.
        folder: Path of the run's folder, as the user gave it.
        contender: Name of the run without its seed; runs of one contender share it.
        group: Name of the comparison, if contenders of several comparisons share names.
        controller: Name of the controller in the job.
        about: The model, the data and the number of devices, in words.
        seed: Seed of the job.
        history: The rounds that can be read.
        is_complete: Whether the whole history can be read.
        limits: Limits of the job; None if the job cannot be read.
        ended: What ended the training; None if it still runs or was interrupted.
        devices: Names of the devices, in the order of the fleet.
        job: Text of the job file.
        command: The command that repeats the run from ``job.toml``.
        streams: Whether data streams in.
        buffer_size: The most samples that a device stores; None if data does not stream, or if
            there is no limit.
        bound_terms: The terms of the bound by name, with a value or None for each round.
    """

    name: str
    folder: str
    contender: str
    controller: str
    about: str
    seed: int
    history: History
    is_complete: bool
    limits: Limits | None
    ended: str | None
    devices: Sequence[str]
    job: str
    group: str = ""
    command: str = "dynamite run job.toml"
    streams: bool = False
    buffer_size: float | None = None
    bound_terms: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name of the contender, with its group."""
        return title_of(self.group, self.contender)

    def device(self, index: int) -> str:
        """Return the name of a device."""
        return self.devices[index] if index < len(self.devices) else f"device {index + 1}"


@dataclass(frozen=True)
class Repeat:
    """How to repeat runs.

    Attributes:
        command: The command.
        job: Text of the job file that the command needs.
        run: Name of the run that the job is from.
    """

    command: str
    job: str
    run: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportedComparison:
    """Contenders side by side.

    Attributes:
        runs: All runs, including those that have not finished.
        contenders: Summaries of the contenders with finished runs, the best first.
        target: The value of the leading metric to reach; None if no run has finished.
        tuned: Methods that were run at three rates or more, which are shown at the best one.
        hindsight: The best fixed setting; None if none was tried.
        repeat: The command that repeats all runs, or one of them if no command repeats all.
    """

    runs: Sequence[ReportedRun]
    contenders: Sequence[ContenderSummary]
    target: Target | None
    tuned: Sequence[Tuned]
    hindsight: Hindsight | None
    repeat: Repeat

    @property
    def leading_metric(self) -> LeadingMetric:
        """The metric by which contenders are compared."""
        return self.runs[0].history.leading_metric if self.target is None else self.target.metric
