"""What a report is made of, handed in by who can read job files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynamite_fl.records import Limits
from dynamite_fl.report.history import History
from dynamite_fl.report.summary import Row, Target, titled


@dataclass(frozen=True, eq=False, kw_only=True)
class ShownRun:
    """A training and what is known about it.

    Attributes:
        name: What its folder is called.
        folder: Where that is, as it was asked for.
        contender: Who decided: runs that differ only in their seeds have the same.
        group: The comparison that it is of, where contenders of several would be mixed up.
        controller: The controller's name in the job.
        about: What was trained on what, in words.
        seed: Of the job.
        history: The rounds that can be read.
        is_whole: Whether these are all there should be.
        limits: None if the job cannot be read.
        ended: What ended it; None if it is still going, or was interrupted.
        devices: Their names, by their places in the fleet.
        job: The job file as it is.
        command: What plays it again, if it is saved as ``job.toml``.
        stored: The most samples that a device stores, where data streams; None for no limit.
        streams: Whether data streams in.
        terms: The parts of the bound by their names, a value or None for each round.
    """

    name: str
    folder: str
    contender: str
    controller: str
    about: str
    seed: int
    history: History
    is_whole: bool
    limits: Limits | None
    ended: str | None
    devices: Sequence[str]
    job: str
    group: str = ""
    command: str = "dynamite run job.toml"
    stored: float | None = None
    streams: bool = False
    terms: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The contender as it is shown."""
        return titled(self.group, self.contender)

    def device(self, place: int) -> str:
        """What to call the device at a place."""
        return self.devices[place] if place < len(self.devices) else f"device {place + 1}"


@dataclass(frozen=True, eq=False, kw_only=True)
class ShownHindsight:
    """What fixed local steps and batch sizes reached.

    Attributes:
        best: The best of them, or FedAvg.
        gap: From FedAvg's mean accuracy to the best's.
        covered: The share of it that each contender covers; None where that cannot be said.
        tried: Local steps, batch size and accuracy of each on the first seed.
    """

    best: Row
    gap: float | None
    covered: Mapping[str, float | None]
    tried: Sequence[tuple[int, int, float]]


@dataclass(frozen=True)
class Repeat:
    """How to run it all again: a command, a job, and the name of the run that has it."""

    command: str
    job: str
    of: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ShownComparison:
    """Contenders side by side.

    Attributes:
        runs: Theirs, those that are still going included.
        rows: Of those with finished runs, the most accurate first.
        target: The accuracy to reach; None if no run finished.
        hindsight: None if there is none.
        repeat: How to run them all again, or one of them if no command does that.
    """

    runs: Sequence[ShownRun]
    rows: Sequence[Row]
    target: Target | None
    hindsight: ShownHindsight | None
    repeat: Repeat
