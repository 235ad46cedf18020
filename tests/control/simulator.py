"""A small world for controllers: affine step times, jitter and random probes, without models."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynamite_fl.control.controller import Controller
from dynamite_fl.control.estimate.speed import estimated_fleet, first_estimates, update_speeds
from dynamite_fl.plan._problem import round_cost
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import Probe, RoundReport


def report(
    clients: list[int],
    *,
    sizes: list[int],
    step_seconds: list[float],
    comm_seconds: list[float] | None = None,
    samples: list[float] | None = None,
    probe: Probe | None = None,
    local_steps: int = 1,
    learning_rate: float = 0.01,
    round_index: int = 1,
) -> RoundReport:
    nan = [np.nan] * len(clients)
    return RoundReport(
        round_index=round_index,
        clients=np.array(clients),
        local_steps=local_steps,
        learning_rate=learning_rate,
        batch_sizes=np.array(sizes),
        present=np.isfinite(step_seconds),
        samples=np.array(nan if samples is None else samples, dtype=float),
        step_seconds=np.array(step_seconds, dtype=float),
        comm_seconds=np.array(nan if comm_seconds is None else comm_seconds, dtype=float),
        probe=probe,
    )


def probe(clients: int, **columns: list[float]) -> Probe:
    """Return a probe of these columns. All other columns are NaN."""
    fields = [field.name for field in dataclasses.fields(Probe)]
    nan = [np.nan] * clients
    return Probe(*(np.array(columns.get(name, nan), dtype=float) for name in fields))


@dataclass
class World:
    """The true fleet. Times jitter, clients may be absent, and probes are random."""

    fleet: Fleet
    seed: int
    jitter: float = 0.1
    absence: float = 0.2

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def cohort(self) -> IntArray:
        n = len(self.fleet)
        return np.sort(self.random.choice(n, size=self.random.integers(1, n + 1), replace=False))

    def run_round(self, plan: Plan, cohort: IntArray, index: int, *, probed: bool) -> RoundReport:
        fleet, m = self.fleet, cohort.size
        present = self.random.random(m) >= self.absence
        step = fleet.step_overhead[cohort] + plan.batch_sizes / fleet.samples_per_second[cohort]
        return RoundReport(
            round_index=index,
            clients=cohort,
            local_steps=plan.local_steps,
            learning_rate=0.05,
            batch_sizes=plan.batch_sizes,
            present=present,
            samples=fleet.samples[cohort],
            step_seconds=self._measured(step, present),
            comm_seconds=self._measured(fleet.comm_seconds[cohort], present),
            probe=self._probe(present) if probed and index > 1 and index % 3 else None,
        )

    def _measured(self, seconds: FloatArray, present: Any) -> FloatArray:
        noise = np.exp(self.jitter * self.random.standard_normal(seconds.size))
        return np.where(present, seconds * noise, np.nan)

    def _probe(self, present: Any) -> Probe:
        drawn = 10 ** self.random.uniform(-2, 2, (8, present.size))
        drawn[self.random.random(drawn.shape) < 0.1] = np.nan
        return Probe(*np.where(present, drawn, np.nan))


def training(
    controller: Controller[Any], guess: Fleet, limits: Limits, world: World, most: int
) -> Iterator[tuple[Plan, Limits, IntArray, Any]]:
    """Yield each round's plan, the limits before it, its cohort and the state after planning."""
    left, speeds = limits, first_estimates(guess)
    cohort = world.cohort()
    try:
        plan, state = controller.start(guess, left, cohort)
        for index in range(1, most + 1):
            yield plan, left, cohort, state
            report = world.run_round(plan, cohort, index, probed=controller.measures == "loss")
            rest = spent(left, report)
            if rest is None:
                return
            left, cohort = rest, world.cohort()
            speeds = update_speeds(speeds, report)
            fleet = estimated_fleet(guess, speeds, guess.samples)
            plan, state = controller.adapt(report, fleet, left, cohort, state)
    except Infeasible:
        return


def spent(limits: Limits, report: RoundReport) -> Limits | None:
    """Return what remains after a round, or None if nothing does."""
    seconds = report.local_steps * report.step_seconds + report.comm_seconds
    deadline = limits.deadline - float(np.max(seconds, initial=0.0, where=report.present))
    cost = round_cost(limits, report.local_steps, report.batch_sizes.sum())
    budget = limits.budget - float(cost)
    rounds = None if limits.rounds is None else limits.rounds - 1
    if deadline <= 0 or budget <= 0 or rounds == 0:
        return None
    return replace(limits, deadline=deadline, budget=budget, rounds=rounds)
