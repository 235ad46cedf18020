"""The trade-off between time, money and error: the best plan for every pair of limits."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.errors import InvalidInput
from dynamite_fl.plan._search import Search
from dynamite_fl.plan.bounds import Bound, cumulative_bound
from dynamite_fl.plan.cooptfl import best_plan
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, LossGeometry, Plan


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """The best plans for d deadlines and b budgets, in tables of shape (d, b).

    Attributes:
        deadlines: The deadlines of the rows, shape (d,).
        budgets: The budgets of the columns, shape (b,).
        rounds: The rounds of the best plan. 0 if no plan keeps the limits.
        local_steps: The local steps of the best plan. 0 if no plan keeps the limits.
        bound: The bound of the best plan. Infinite if no plan keeps the limits.
    """

    deadlines: FloatArray
    budgets: FloatArray
    rounds: IntArray
    local_steps: IntArray
    bound: FloatArray
    _search: Search

    def plan(self, row: int, column: int) -> Plan:
        """Return the best plan of one cell, with its batch sizes.

        Raises:
            Infeasible: No plan keeps these limits.
        """
        limits = replace(
            self._search.limits,
            deadline=float(self.deadlines[row]),
            budget=float(self.budgets[column]),
        )
        return best_plan(self._search.fleet, limits, self._search.objective)


def tradeoff(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Bound = cumulative_bound,
    *,
    deadlines: ArrayLike,
    budgets: ArrayLike,
) -> Tradeoff:
    """Find the best plan for every pair of a deadline and a budget.

    Args:
        fleet: The clients.
        limits: Prices and rounds. Its deadline and its budget are not used.
        geometry: The constants of the loss.
        objective: The bound to minimise. Default: Theorem 1.
        deadlines: The deadlines of the rows, in seconds.
        budgets: The budgets of the columns, in cost units.

    Example:
        >>> fleet = Fleet(
        ...     samples=[400, 1600],
        ...     gradient_variance=[2, 8],
        ...     samples_per_second=[50, 200],
        ...     comm_seconds=0.1,
        ... )
        >>> limits = Limits(
        ...     rounds=100, deadline=1, budget=1, cost_per_sample=0.01, cost_per_round=1
        ... )
        >>> geometry = LossGeometry(
        ...     learning_rate=0.01,
        ...     quadratic_bound=5,
        ...     smoothness=2,
        ...     pl_constant=0.2,
        ...     divergence=2,
        ...     loss_gap=2.3,
        ... )
        >>> table = tradeoff(fleet, limits, geometry, deadlines=[5, 50, 500], budgets=[200, 400])
        >>> table.local_steps
        array([[ 0,  0],
               [10, 10],
               [ 9, 10]])
        >>> table.plan(1, 0).batch_sizes
        array([2, 8])
    """
    rows = _grid("deadlines", deadlines)
    columns = _grid("budgets", budgets)
    search = Search(fleet, limits, partial(objective, geometry))
    shape = (rows.size, columns.size)
    if limits.rounds is None:
        rounds, steps, bound = _cell_by_cell(search, rows, columns)
    else:
        deadline, budget = (axis.ravel() for axis in np.meshgrid(rows, columns, indexing="ij"))
        floor = np.zeros((deadline.size, limits.max_local_steps))
        worst = np.full(deadline.size, np.inf)
        floor = search.raise_floor(limits.rounds, deadline, budget, floor, worst)
        values = search.value(limits.rounds, floor)
        bound = values.min(axis=1)
        steps = np.where(np.isfinite(bound), 1 + values.argmin(axis=1), 0)
        rounds = np.where(np.isfinite(bound), limits.rounds, 0)
    return Tradeoff(
        rows, columns, rounds.reshape(shape), steps.reshape(shape), bound.reshape(shape), search
    )


def _cell_by_cell(
    search: Search, rows: FloatArray, columns: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return rounds, local steps and bounds where the planner chooses the rounds of each cell."""
    cells = []
    for deadline in rows:
        for budget in columns:
            limits = replace(search.limits, deadline=float(deadline), budget=float(budget))
            try:
                plan = best_plan(search.fleet, limits, search.objective)
                cells.append((plan.rounds, plan.local_steps, plan.bound))
            except Infeasible:
                cells.append((0, 0, np.inf))
    rounds, steps, bound = zip(*cells, strict=True)
    return np.array(rounds), np.array(steps), np.array(bound)


def _grid(name: str, values: ArrayLike) -> FloatArray:
    try:
        grid = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a list of numbers above 0") from None
    if grid.ndim != 1 or grid.size == 0 or not (grid > 0).all():
        raise InvalidInput(f"{name} must be a list of numbers above 0, at least one")
    return grid
