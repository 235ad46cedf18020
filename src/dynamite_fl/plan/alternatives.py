"""A plan beside its alternatives under the same limits, as tables, JSON and CSV."""

import csv
import io
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dynamite_fl.plan._predict import clients_at_limit
from dynamite_fl.plan._problem import round_seconds
from dynamite_fl.plan.closed_forms import uniform_plan
from dynamite_fl.plan.cooptfl import bound_by_steps, cooptimize
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.plan.fixed import fixed_plan
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan

_CURVE_WORK = 10_000_000  # the batch sizes to compute for the curve: they take about a second


@dataclass(frozen=True, eq=False)
class PlanReport:
    """The best plan and its alternatives, as ``dynamite plan`` shows them.

    Attributes:
        fleet: The clients.
        limits: Deadline, budget and prices.
        geometry: The constants of the loss.
        plan: The best plan.
        uniform: The best plan with the same batch size for all clients, for as many rounds.
        fedavg: FedAvg with its default settings, for as many rounds as fit. None if none fits.
        local_steps: The local steps at which the bound is evaluated, shape (c,).
        bounds: The least bound for each of these local steps. Infinite if they do not fit.
    """

    fleet: Fleet
    limits: Limits
    geometry: LossGeometry
    plan: Plan
    uniform: Plan
    fedavg: Plan | None
    local_steps: IntArray
    bounds: FloatArray

    def held_by(self) -> list[str]:
        """Return for each client the limit that prevents one more sample.

        The text is empty for a client whom only the budget limits.
        """
        plan = self.plan
        masks = clients_at_limit(
            self.fleet, self.limits, plan.rounds, plan.local_steps, plan.batch_sizes
        )
        limits = np.full(len(self.fleet), "", dtype=object)
        for limit, mask in reversed(masks.items()):
            limits[mask] = limit  # the deadline comes last, so it wins over the others
        return [str(limit) for limit in limits]

    def round_seconds(self) -> FloatArray:
        """Return the seconds of each client in a round, shape (n,)."""
        return round_seconds(self.fleet, self.plan.local_steps, self.plan.batch_sizes)


def report_plan(fleet: Fleet, limits: Limits, geometry: LossGeometry) -> PlanReport:
    """Find the best plan and its alternatives.

    Raises:
        Infeasible: Even one local step on one sample per client exceeds the limits.
    """
    plan = cooptimize(fleet, limits, geometry)
    same_rounds = replace(limits, rounds=plan.rounds)
    try:
        fedavg = fixed_plan(fleet, limits, geometry)
    except Infeasible:
        fedavg = None
    steps = np.union1d(_curve_steps(limits.max_local_steps, len(fleet)), plan.local_steps)
    return PlanReport(
        fleet=fleet,
        limits=limits,
        geometry=geometry,
        plan=plan,
        uniform=uniform_plan(fleet, same_rounds, geometry),
        fedavg=fedavg,
        local_steps=steps,
        bounds=bound_by_steps(fleet, same_rounds, geometry, rounds=plan.rounds, local_steps=steps),
    )


def _curve_steps(most: int, clients: int) -> IntArray:
    """Return all local steps. For very many clients, return some, denser at the small end."""
    points = max(10, _CURVE_WORK // clients)
    if points >= most:
        return np.arange(1, most + 1)
    return np.unique(np.geomspace(1, most, points).round().astype(np.int64))


def to_json(report: PlanReport) -> dict[str, Any]:
    """Return the report as JSON values, under the names of the records."""
    return {
        **_plan_json(report.plan),
        "clients": [report.fleet.label(i) for i in range(len(report.fleet))],
        "batch_sizes": report.plan.batch_sizes.tolist(),
        "round_seconds": report.round_seconds().tolist(),
        "held_by": [limit or None for limit in report.held_by()],
        "binding": list(report.plan.binding),
        "limits": {name: _finite(value) for name, value in asdict(report.limits).items()},
        "geometry": asdict(report.geometry),
        "gradient_variance": report.fleet.gradient_variance.tolist(),
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
    """Replace infinity by None, because JSON has no infinity."""
    return None if isinstance(value, float) and math.isinf(value) else value


def to_csv(report: PlanReport) -> str:
    """Return a CSV table with one line per client: its data, batch size and seconds in a round."""
    fleet = report.fleet
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
    if fleet.least_batch is not None:
        columns["least_batch"] = fleet.least_batch.astype(np.int64).tolist()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
