"""An experiment as its TOML file describes it.

``job`` holds the tables of the training job that all runs have in common. A scale (``at``), a
panel and a contender each replace keys of it, in this order. ``like`` names an experiment whose
job, scales, seeds, notes, panels and contenders are taken over, and whose run folders are shared;
``select`` then lists the scales, panels and contenders that are kept.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynamite_fl._validate import check_name
from dynamite_fl.errors import InvalidInput
from dynamite_fl.experiments import JOBS, NAMES
from dynamite_fl.experiments.claims import Claim
from dynamite_fl.job.training import TrainingJob, resolve_tables

SCALES = ("smoke", "laptop", "reduced", "paper")
Tables = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A contender, or a panel: a setting in which all contenders are run.

    Attributes:
        title: The name of the variant in figures and tables.
        job: The keys of the job that it replaces. Unless a contender replaces the controller, that
            is the one of the contender's name.
        at: The keys of the job that it replaces at a scale.
        scales: The scales at which a panel is run.
        published: The paper's accuracies in a panel, by contender.
    """

    title: str
    job: Tables = field(default_factory=dict)
    at: Mapping[str, Tables] = field(default_factory=dict)
    scales: Sequence[str] = SCALES
    published: Mapping[str, float] = field(default_factory=dict)

    def layers(self, scale: str) -> list[Tables]:
        """Return the keys that it replaces at every scale, then those that it replaces at one."""
        return [self.job, self.at.get(scale, {})]


@dataclass(frozen=True, kw_only=True)
class ChartSpec:
    """What the figure shows of each panel.

    Attributes:
        kind: ``lines`` of a history's column, ``bars`` of a measure, or ``theorem`` for the plans
            that Theorem 2 proposes.
        y: The column or the measure.
        x: The horizontal axis of lines: ``round``, ``seconds`` or ``cost``.
        panels: The panels to show. Default: all.
    """

    kind: str
    y: str
    x: str = "round"
    panels: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class TheoremQuestion:
    """The numbers of rounds for which Theorem 2 proposes a plan.

    Attributes:
        rounds: The numbers of rounds, one plan for each.
        samples: Local steps times batch size, of each client in each round.
        pilot_rounds: The number of rounds in which the constants of the loss are measured.
    """

    rounds: Sequence[int]
    samples: int
    pilot_rounds: int = 5


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of the paper.

    Attributes:
        name: The name of its file.
        title: A heading.
        shows: The paper's label of the figure or table.
        runs_from: The name of the experiment whose run folders it uses: its own, or that of the
            one it is like.
        job: The tables of a job that all runs have in common.
        at: The keys of the job that each scale replaces.
        seeds: The number of seeds at each scale. It is not run at a scale that is missing.
        notes: A note for each scale on how it differs from the paper.
        panels: The settings, by name.
        contenders: The controllers that are compared, by name.
        charts: The charts of the figure.
        claims: The paper's claims about the figure.
        theorem: The question to Theorem 2, by scale.
    """

    name: str
    title: str
    shows: str
    runs_from: str
    job: Tables
    at: Mapping[str, Tables]
    seeds: Mapping[str, int]
    notes: Mapping[str, str]
    panels: Mapping[str, Variant]
    contenders: Mapping[str, Variant]
    charts: Sequence[ChartSpec]
    claims: Sequence[Claim]
    theorem: Mapping[str, TheoremQuestion]

    def panels_at(self, scale: str) -> list[str]:
        """Return the names of the panels that are run at a scale."""
        if scale not in self.seeds:
            return []
        return [name for name, panel in self.panels.items() if scale in panel.scales]

    def seeds_at(self, scale: str) -> int:
        """Return the number of seeds at a scale.

        Raises:
            InvalidInput: The experiment is not run at this scale.
        """
        if scale not in self.seeds:
            scales = ", ".join(name for name in SCALES if name in self.seeds)
            raise InvalidInput(
                f"{self.name} is not run at the scale {scale}: choose one of {scales}"
            )
        return self.seeds[scale]

    def run_count(self, scale: str) -> int:
        """Return the number of runs at a scale."""
        return self.seeds.get(scale, 0) * len(self.panels_at(scale)) * len(self.contenders)

    def job_of(self, scale: str, panel: str, contender: str, seed: int) -> TrainingJob:
        """Return the job of one run."""
        layers = [self.job, self.at.get(scale, {}), *self.panels[panel].layers(scale)]
        layers += [{"controller": {"name": contender}}, *self.contenders[contender].layers(scale)]
        tables = merged([*layers, {"training": {"seed": seed}}])
        return TrainingJob(resolve_tables(tables, Path()))


def load_experiment(name: str) -> Experiment:
    """Return an experiment of the package.

    Raises:
        InvalidInput: There is no experiment of this name.

    Example:
        >>> load_experiment("optimal-tau").shows
        'fig:case1'
    """
    check_name("experiment", name, NAMES)
    return experiment_from(name, _read(name))


def experiment_from(name: str, tables: Tables) -> Experiment:
    """Return the experiment that the tables of a file describe."""
    if "like" in tables:
        base = _read(tables["like"])
        added = {
            key: {**base[key], **tables.get(key, {})} for key in ("notes", "panels", "contenders")
        }
        tables = {**base, **tables, **added}
    selected = tables.get("select", {})
    panels, contenders = (
        {key: Variant(**tables[group][key]) for key in selected.get(group, tables[group])}
        for group in ("panels", "contenders")
    )
    return Experiment(
        name=name,
        title=tables["title"],
        shows=tables["shows"],
        runs_from=tables.get("like", name),
        job=tables["job"],
        at=tables["at"],
        seeds={key: tables["seeds"][key] for key in selected.get("scales", tables["seeds"])},
        notes=tables["notes"],
        panels=panels,
        contenders=contenders,
        charts=[ChartSpec(**table) for table in tables["charts"]],
        claims=[Claim(**table) for table in tables["claims"]],
        theorem={key: TheoremQuestion(**t) for key, t in tables.get("theorem", {}).items()},
    )


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((JOBS / f"{name}.toml").read_text(encoding="utf-8"))


def merged(layers: Iterable[Tables]) -> dict[str, Any]:
    """Return the tables of a job, where keys of later layers replace those of earlier ones.

    A table with a ``kind`` or a ``name`` replaces the earlier table as a whole. The layers
    themselves are not changed.

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
    tables: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            earlier = tables.get(name)
            if not isinstance(value, Mapping):
                tables[name] = value
            elif isinstance(earlier, Mapping) and not {"kind", "name"} & set(value):
                tables[name] = {**earlier, **value}
            else:
                tables[name] = dict(value)
    return tables
