"""What the runs of an experiment came to: histories by panel, contender and seed."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from dynamite_fl.experiments.measures import MEASURES, Setting
from dynamite_fl.report.history import History
from dynamite_fl.report.summary import FEDAVG

Histories = Mapping[str, Mapping[str, Mapping[int, History]]]
# Theorem 2's local steps and batch size, by panel, seed and rounds.
Plans = Mapping[str, Mapping[int, Mapping[int, tuple[int, int]]]]


@dataclass(frozen=True)
class Difference:
    """A number over seeds, or of two contenders on the same seeds.

    Attributes:
        mean: Over seeds.
        error: Its standard error, the deviation over seeds divided by the root of their number;
            None for one seed, which has no spread.
        seeds: How many.

    Example:
        >>> lead = difference_of([3.0, 5.0])
        >>> lead
        Difference(mean=4.0, error=1.0, seeds=2)
        >>> lead.exceeds(2.5), lead.exceeds(3.5), difference_of([3.0]).exceeds(2.5)
        (True, False, None)
    """

    mean: float
    error: float | None
    seeds: int

    def exceeds(self, least: float = 0.0) -> bool | None:
        """Whether it is above this by more than its standard error; None if it has none."""
        return None if self.error is None else self.mean - self.error > least

    def stays_within(self, most: float) -> bool | None:
        """Whether it is nearer to 0 than this, standard error included; None without one."""
        return None if self.error is None else abs(self.mean) + self.error <= most


def difference_of(values: list[float]) -> Difference:
    """Mean and standard error."""
    count = len(values)
    error = statistics.stdev(values) / count**0.5 if count > 1 else None
    return Difference(statistics.fmean(values), error, count)


@dataclass(frozen=True)
class Found:
    """All that claims are judged by.

    Attributes:
        histories: Of finished runs.
        bursts: The round of a panel's burst, if it has one.
        plans: What Theorem 2 says, where it was asked.
    """

    histories: Histories
    bursts: Mapping[str, int] = field(default_factory=dict)
    plans: Plans = field(default_factory=dict)

    def setting(self, panel: str) -> Setting:
        """The panel's burst, and its target: FedAvg's mean accuracy at the end."""
        fedavg = self.histories.get(panel, {}).get(FEDAVG, {})
        finals = [history.final_accuracy for history in fedavg.values()]
        target = statistics.fmean(finals) if finals else None
        return Setting(target, self.bursts.get(panel))

    def values(
        self, panel: str, contender: str, measure: str, at_round: int | None = None
    ) -> dict[int, float]:
        """A measure by seed, where it is known."""
        of, setting = MEASURES[measure].of, self.setting(panel)
        histories = self.histories.get(panel, {}).get(contender, {})
        found = {seed: of(history, setting, at_round) for seed, history in histories.items()}
        return {seed: value for seed, value in found.items() if value is not None}

    def all_reach_target(self, panel: str, contender: str) -> bool:
        """Whether every seed of a contender came to the target."""
        target = self.setting(panel).target
        histories = self.histories.get(panel, {}).get(contender, {})
        return target is not None and all(
            history.first_reaching(target) is not None for history in histories.values()
        )
