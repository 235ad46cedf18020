"""What the finished runs of an experiment came to."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynamite_fl.compare.summary import FEDAVG, Spread, spread_of
from dynamite_fl.experiments.measures import first_rounds, measure
from dynamite_fl.experiments.origin import Origin
from dynamite_fl.training.history import History

Plan = Mapping[int, tuple[int, int]]  # Theorem 2's local steps and batch size, by rounds


@dataclass(frozen=True)
class Outcome:
    """What the finished runs of an experiment came to.

    Attributes:
        histories: The histories by panel, contender and seed.
        bursts: The round of a panel's burst, where it has one.
        plans: The plans that Theorem 2 proposes, by panel and seed.
        failures: Why runs have no usable history, by the name of their folder.
        runs: The number of runs that the experiment has, finished or not.
        origins: The states of the program that made the runs.
    """

    histories: Mapping[str, Mapping[str, Mapping[int, History]]]
    bursts: Mapping[str, int] = field(default_factory=dict)
    plans: Mapping[str, Mapping[int, Plan]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    runs: int = 0
    origins: Sequence[Origin] = ()

    @property
    def finished(self) -> int:
        """The number of runs that are finished and have a usable history."""
        return sum(len(of) for contenders in self.histories.values() for of in contenders.values())

    @property
    def seeds(self) -> list[int]:
        """The seeds of the finished runs."""
        panels = self.histories.values()
        return sorted({seed for panel in panels for of in panel.values() for seed in of})

    def of(self, panel: str, contender: str) -> Mapping[int, History]:
        """Return a contender's histories by seed."""
        return self.histories.get(panel, {}).get(contender, {})

    def target(self, panel: str) -> float | None:
        """Return FedAvg's mean accuracy at the end; None if FedAvg was not run."""
        finals = [history.final for history in self.of(panel, FEDAVG).values()]
        return statistics.fmean(finals) if finals else None

    def all_reach_target(self, panel: str, contender: str) -> bool:
        """Return whether a contender reaches the target with every seed."""
        target, histories = self.target(panel), self.of(panel, contender).values()
        return target is not None and all(
            history.first_reaching(target) is not None for history in histories
        )

    def measures(
        self, panel: str, contender: str, at_round: int | None = None
    ) -> dict[int, dict[str, float]]:
        """Return all measures by seed, at the end or after some round."""
        histories = self.of(panel, contender)
        if at_round is not None:
            histories = first_rounds(histories, at_round)
        target, burst = self.target(panel), self.bursts.get(panel)
        return {seed: measure(history, target, burst) for seed, history in histories.items()}

    def values(
        self, panel: str, contender: str, name: str, at_round: int | None = None
    ) -> dict[int, float]:
        """Return a measure by seed, at the end or after some round, where it is known."""
        measures = self.measures(panel, contender, at_round).items()
        return {seed: values[name] for seed, values in measures if name in values}

    def spread(self, panel: str, contender: str, name: str) -> Spread | None:
        """Return a measure's mean and deviation over seeds; None if it is known with none."""
        values = self.values(panel, contender, name)
        return spread_of(values.values()) if values else None
