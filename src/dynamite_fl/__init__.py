"""DYNAMITE: federated learning that keeps to a deadline and a budget.

Names are imported when they are first used, so that ``dynamite --help`` waits for none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamite_fl.plan.cooptfl import cooptimize
    from dynamite_fl.plan.infeasible import Infeasible
    from dynamite_fl.plan.tradeoff import tradeoff
    from dynamite_fl.plan.uniform import constant_time_plan, uniform_plan
    from dynamite_fl.records import Fleet, LearningRateWarning, Limits, LossGeometry, Plan
    from dynamite_fl.simulation import simulate

__all__ = [
    "Fleet",
    "Infeasible",
    "LearningRateWarning",
    "Limits",
    "LossGeometry",
    "Plan",
    "constant_time_plan",
    "cooptimize",
    "simulate",
    "tradeoff",
    "uniform_plan",
]

_HOMES = {
    "cooptimize": "plan.cooptfl",
    "Infeasible": "plan.infeasible",
    "tradeoff": "plan.tradeoff",
    "constant_time_plan": "plan.uniform",
    "uniform_plan": "plan.uniform",
    "simulate": "simulation",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'records')}"), name)


def __dir__() -> list[str]:
    return __all__
