"""DYNAMITE: federated learning that keeps to a deadline and a budget.

Everything a user needs is here. Names are imported when they are first used, so that planning needs
no PyTorch and ``dynamite --help`` waits for nothing.

Example:
    >>> import dynamite_fl as fl
    >>> task = fl.make_task("softmax", "digits")
    >>> limits = fl.Limits(deadline=30, budget=40, cost_per_sample=0.0005, cost_per_round=1)
    >>> result = fl.train(task, devices="testbed5", limits=limits, learning_rate=0.05)
    >>> result.metrics["accuracy"] > 0.8
    True
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import version

    import dynamite_fl.testing as testing
    from dynamite_fl import controllers, partitions
    from dynamite_fl.api import Result, resume, train
    from dynamite_fl.errors import (
        DatasetError,
        Diverged,
        DynamiteError,
        InvalidInput,
        JobError,
        MissingExtra,
        NoSampleYet,
        RunFolderError,
        TooFewNodes,
        UserCodeError,
        WorkerError,
    )
    from dynamite_fl.plan.closed_forms import constant_time_plan, uniform_plan
    from dynamite_fl.plan.cooptfl import cooptimize
    from dynamite_fl.plan.feasibility import Infeasible
    from dynamite_fl.plan.fixed import fixed_plan
    from dynamite_fl.plan.tradeoff import tradeoff
    from dynamite_fl.records import Fleet, LearningRateWarning, Limits, LossGeometry, Plan
    from dynamite_fl.simulation.devices import Devices
    from dynamite_fl.simulation.fleets import embedded_fleet
    from dynamite_fl.simulation.traces import Trace, read_trace
    from dynamite_fl.stream.stream import Stream
    from dynamite_fl.task.registry import load_task, make_task
    from dynamite_fl.task.task import Task
    from dynamite_fl.training.history import History, read_history

    __version__ = version("dynamite-fl")

_ERRORS = (
    "DatasetError",
    "Diverged",
    "DynamiteError",
    "InvalidInput",
    "JobError",
    "MissingExtra",
    "NoSampleYet",
    "RunFolderError",
    "TooFewNodes",
    "UserCodeError",
    "WorkerError",
)
# The module that each name lives in.
_HOMES = {
    **dict.fromkeys(("Result", "resume", "train"), "api"),
    **dict.fromkeys(_ERRORS, "errors"),
    **dict.fromkeys(("Fleet", "LearningRateWarning", "Limits", "LossGeometry", "Plan"), "records"),
    **dict.fromkeys(("constant_time_plan", "uniform_plan"), "plan.closed_forms"),
    "cooptimize": "plan.cooptfl",
    "Infeasible": "plan.feasibility",
    "fixed_plan": "plan.fixed",
    "tradeoff": "plan.tradeoff",
    "Devices": "simulation.devices",
    "embedded_fleet": "simulation.fleets",
    **dict.fromkeys(("Trace", "read_trace"), "simulation.traces"),
    "Stream": "stream.stream",
    **dict.fromkeys(("load_task", "make_task"), "task.registry"),
    "Task": "task.task",
    **dict.fromkeys(("History", "read_history"), "training.history"),
}
_MODULES = ("controllers", "partitions", "testing")

__all__ = [
    "DatasetError",
    "Devices",
    "Diverged",
    "DynamiteError",
    "Fleet",
    "History",
    "Infeasible",
    "InvalidInput",
    "JobError",
    "LearningRateWarning",
    "Limits",
    "LossGeometry",
    "MissingExtra",
    "NoSampleYet",
    "Plan",
    "Result",
    "RunFolderError",
    "Stream",
    "Task",
    "TooFewNodes",
    "Trace",
    "UserCodeError",
    "WorkerError",
    "__version__",
    "constant_time_plan",
    "controllers",
    "cooptimize",
    "embedded_fleet",
    "fixed_plan",
    "load_task",
    "make_task",
    "partitions",
    "read_history",
    "read_trace",
    "resume",
    "testing",
    "tradeoff",
    "train",
    "uniform_plan",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("dynamite-fl")
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
