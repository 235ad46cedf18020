"""DYNAMITE: federated learning that keeps to a deadline and a budget."""

from dynamite_fl.plan.cooptfl import cooptimize
from dynamite_fl.plan.infeasible import Infeasible
from dynamite_fl.plan.tradeoff import tradeoff
from dynamite_fl.plan.uniform import constant_time_plan, uniform_plan
from dynamite_fl.records import Fleet, Limits, LossGeometry, Plan

__all__ = [
    "Fleet",
    "Infeasible",
    "Limits",
    "LossGeometry",
    "Plan",
    "constant_time_plan",
    "cooptimize",
    "tradeoff",
    "uniform_plan",
]
