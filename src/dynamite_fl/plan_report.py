"""A plan beside what else one could do under the same limits: for scripts and for tables."""

import csv
import io
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dynamite_fl.config import Job
from dynamite_fl.plan.cooptfl import bound_by_steps, cooptimize
from dynamite_fl.plan.fixed import fixed_plan
from dynamite_fl.plan.infeasible import Infeasible
from dynamite_fl.plan.predict import held_by
from dynamite_fl.plan.problem import round_seconds
from dynamite_fl.plan.uniform import uniform_plan
from dynamite_fl.records import FloatArray, IntArray, Plan

_CURVE_WORK = 10_000_000  # batch sizes to find for the curve: about a second


@dataclass(frozen=True, eq=False)
class PlanReport:
    """What ``dynamite plan`` shows.

    Attributes:
        job: What was asked.
        plan: The answer.
        uniform: The best plan with one batch size for all, at as many rounds.
        fedavg: FedAvg's default, for as many rounds as fit; None if not one does.
        local_steps: Local steps at which the bound is drawn.
        bounds: The least bound at each of them, infinite where they do not fit.
    """

    job: Job
    plan: Plan
    uniform: Plan
    fedavg: Plan | None
    local_steps: IntArray
    bounds: FloatArray

    def held_by(self) -> list[str]:
        """For each client what keeps it from one sample more; empty if only the budget does."""
        plan, job = self.plan, self.job
        masks = held_by(job.fleet, job.limits, plan.rounds, plan.local_steps, plan.batch_sizes)
        held = np.full(len(job.fleet), "", dtype=object)
        for limit, mask in reversed(masks.items()):
            held[mask] = limit  # the deadline last, so that it is named first
        return [str(limit) for limit in held]

    def round_seconds(self) -> FloatArray:
        """Each client's seconds in a round."""
        return round_seconds(self.job.fleet, self.plan.local_steps, self.plan.batch_sizes)


def report_plan(job: Job) -> PlanReport:
    """Plan a job, and what else one could do."""
    plan = cooptimize(job.fleet, job.limits, job.geometry)
    limits = replace(job.limits, rounds=plan.rounds)
    try:
        fedavg = fixed_plan(job.fleet, job.limits, job.geometry)
    except Infeasible:
        fedavg = None
    steps = _curve_steps(job.limits.max_local_steps, len(job.fleet))
    steps = np.union1d(steps, plan.local_steps)
    return PlanReport(
        job=job,
        plan=plan,
        uniform=uniform_plan(job.fleet, limits, job.geometry),
        fedavg=fedavg,
        local_steps=steps,
        bounds=bound_by_steps(
            job.fleet, limits, job.geometry, rounds=plan.rounds, local_steps=steps
        ),
    )


def _curve_steps(most: int, clients: int) -> IntArray:
    """All local steps, or for very many clients a few, closer where there are few steps."""
    points = max(10, _CURVE_WORK // clients)
    if points >= most:
        return np.arange(1, most + 1)
    return np.unique(np.geomspace(1, most, points).round().astype(np.int64))


def to_json(report: PlanReport) -> dict[str, Any]:
    """The report under the names of the records."""
    return {
        **_plan_json(report.plan),
        "clients": [report.job.fleet.label(i) for i in range(len(report.job.fleet))],
        "batch_sizes": report.plan.batch_sizes.tolist(),
        "round_seconds": report.round_seconds().tolist(),
        "held_by": [limit or None for limit in report.held_by()],
        "binding": list(report.plan.binding),
        "limits": {name: _finite(value) for name, value in asdict(report.job.limits).items()},
        "bound_by_local_steps": {
            "local_steps": report.local_steps.tolist(),
            "bound": [_finite(bound) for bound in report.bounds.tolist()],
        },
        "uniform": {
            **_plan_json(report.uniform),
            "batch_size": int(report.uniform.batch_sizes[0]),
        },
        "fedavg": None
        if report.fedavg is None
        else {**_plan_json(report.fedavg), "batch_size": int(report.fedavg.batch_sizes.max())},
    }


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "local_steps": plan.local_steps,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "cost": plan.cost,
        "bound": _finite(plan.bound),
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity: a limit that is not there, or a bound that says nothing, is null."""
    return None if isinstance(value, float) and math.isinf(value) else value


def to_csv(report: PlanReport) -> str:
    """A line for each client: what it is, its batch size, its seconds in a round."""
    fleet = report.job.fleet
    columns = {
        "name": [fleet.label(i) for i in range(len(fleet))],
        "samples": fleet.samples.astype(np.int64).tolist(),
        "gradient_variance": fleet.gradient_variance.tolist(),
        "samples_per_second": fleet.samples_per_second.tolist(),
        "step_overhead": fleet.step_overhead.tolist(),
        "comm_seconds": fleet.comm_seconds.tolist(),
        "batch_size": report.plan.batch_sizes.tolist(),
        "round_seconds": report.round_seconds().tolist(),
        "held_by": report.held_by(),
    }
    if fleet.buffer_size is not None:
        columns["buffer_size"] = fleet.buffer_size.astype(np.int64).tolist()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
