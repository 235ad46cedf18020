"""A controller that discards the first round, for tests."""

from dataclasses import dataclass, replace

from dynamite_fl import Fleet, Limits, Plan
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.control.controller import Measure
from dynamite_fl.records import IntArray
from dynamite_fl.reports import RoundReport


@dataclass(frozen=True)
class BeginsAgain:
    """FedAvg, whose second round begins with the first model again."""

    fedavg: FedAvg
    measures: Measure = "nothing"

    def describe(self, state: None) -> dict[str, float]:
        return self.fedavg.describe(state)

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, None]:
        return self.fedavg.start(fleet, limits, cohort)

    def adapt(
        self, report: RoundReport, fleet: Fleet, remaining: Limits, cohort: IntArray, state: None
    ) -> tuple[Plan, None]:
        plan, state = self.fedavg.adapt(report, fleet, remaining, cohort, state)
        return replace(plan, begins_again=report.round_index == 1), state
