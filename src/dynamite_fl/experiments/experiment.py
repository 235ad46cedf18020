"""An experiment's file, as TOML, checked key by key: which runs, which picture, which claims.

``job`` holds the tables of a training job that all runs have in common. A scale (``at``), a
panel and a contender each replace keys of it, in this order. ``like`` names an experiment whose
job, scales, panels and contenders are taken over, and whose runs are shared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynamite_fl.experiments.claim import Claim
from dynamite_fl.run_config import TABLES, TrainingJob
from dynamite_fl.tables import JobError

SCALES = ("smoke", "laptop", "paper")
Tables = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One part of a figure: all contenders in one setting.

    Attributes:
        title: What it is called in the figure.
        scales: Those at which it is run.
        job: Its own keys of the job.
        at: Its own keys of the job at a scale.
        published: The paper's numbers, by contender.
    """

    title: str
    scales: Sequence[str] = SCALES
    job: Tables = field(default_factory=dict)
    at: Mapping[str, Tables] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Contender:
    """Who is compared.

    Attributes:
        title: What it is called in the figure.
        job: Its own keys of the job; without a controller, that of its name.
        at: Its own keys of the job at a scale.
    """

    title: str
    job: Tables = field(default_factory=dict)
    at: Mapping[str, Tables] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What is drawn of each panel.

    Attributes:
        kind: ``lines`` of a column over rounds, ``bars`` of a measure, or ``theorem``: what
            Theorem 2 says.
        y: The column or the measure.
        x: ``round``, ``seconds`` or ``cost``, for lines.
        panels: Which it shows; all without it.
        contenders: Whom it shows; all without it.
    """

    kind: str
    y: str
    x: str = "round"
    panels: Sequence[str] = ()
    contenders: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """For how many rounds Theorem 2's local steps are asked, and samples a client may use.

    Attributes:
        rounds: The numbers of rounds.
        samples: tau times s, of each client in each round.
        pilot_rounds: How many rounds the constants of the loss are measured in.
    """

    rounds: Sequence[int]
    samples: int
    pilot_rounds: int = 5


@dataclass(frozen=True)
class Experiment:
    """A checked file.

    Attributes:
        name: That of the file.
        pool: Whose run folders it uses: its own, or those of the experiment it is like.
        title: In a few words.
        shows: The paper's label.
        job: What all runs have in common.
        at: What a scale replaces of it.
        seeds: How many, by scale.
        notes: How a scale differs from the paper, in words.
        panels: By name.
        contenders: By name.
        pictures: What is drawn.
        claims: What the paper says of it.
        theorem: What is asked of Theorem 2, by scale.
    """

    name: str
    pool: str
    title: str
    shows: str
    job: Tables
    at: Mapping[str, Tables]
    seeds: Mapping[str, int]
    notes: Mapping[str, str]
    panels: Mapping[str, Panel]
    contenders: Mapping[str, Contender]
    pictures: Sequence[Picture]
    claims: Sequence[Claim]
    theorem: Mapping[str, Theorem]

    def panels_at(self, scale: str) -> list[str]:
        """The panels that a scale has."""
        return [name for name, panel in self.panels.items() if scale in panel.scales]

    def job_of(self, scale: str, panel: str, contender: str, seed: int) -> TrainingJob:
        """The job of one run."""
        part, who = self.panels[panel], self.contenders[contender]
        layers = [self.job, self.at.get(scale, {}), part.job, part.at.get(scale, {})]
        layers += [{"controller": {"name": contender}}, who.job, who.at.get(scale, {})]
        tables = merged([*layers, {"training": {"seed": seed}}])
        missing = [name for name in TABLES if name not in tables]
        if missing:
            raise JobError(f"{self.name}: the job of {panel} at {scale} lacks [{missing[0]}]")
        return TrainingJob(tables, Path())


def merged(layers: Iterable[Tables]) -> dict[str, Any]:
    """Tables, of which a later one's keys replace an earlier one's; no table is changed.

    A table that says of which ``kind`` or ``name`` it is replaces all of the other's.

    Example:
        >>> merged([{"limits": {"rounds": 5, "budget": 9}}, {"limits": {"rounds": 2}}])
        {'limits': {'rounds': 2, 'budget': 9}}
        >>> merged(
        ...     [
        ...         {"controller": {"name": "dbfl", "growth": 0.2}},
        ...         {"controller": {"name": "fedavg"}},
        ...     ]
        ... )
        {'controller': {'name': 'fedavg'}}
    """
    found: dict[str, Any] = {}
    for layer in layers:
        for name, table in layer.items():
            before = found.get(name)
            if not isinstance(table, Mapping):
                found[name] = table
            elif isinstance(before, Mapping) and not {"kind", "name"} & set(table):
                found[name] = {**before, **table}
            else:
                found[name] = dict(table)
    return found
