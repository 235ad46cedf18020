"""DYNAMITE: federated learning that keeps to a deadline and a budget.

Everything that a user needs can be imported from here. The module that defines a name is loaded
when the name is first used. So planning does not load PyTorch, and ``dynamite --help`` is fast.

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

    from dynamite_fl import controllers, flower, metrics, partitions, server, testing
    from dynamite_fl.api import evaluate, resume, train
    from dynamite_fl.client.optimizer import Optimizer
    from dynamite_fl.errors import (
        DatasetError,
        Diverged,
        DynamiteError,
        InvalidInput,
        JobError,
        MissingExtra,
        NoSampleYet,
        OutputError,
        RunFolderError,
        TooFewNodes,
        UserCodeError,
        WorkerError,
    )
    from dynamite_fl.plan.closed_forms import constant_time_plan, uniform_plan
    from dynamite_fl.plan.cohort_size import choose_cohort
    from dynamite_fl.plan.cooptfl import cooptimize
    from dynamite_fl.plan.feasibility import Infeasible
    from dynamite_fl.plan.fixed import fixed_plan
    from dynamite_fl.plan.tradeoff import tradeoff
    from dynamite_fl.records import (
        Fleet,
        LearningRateWarning,
        Limits,
        LossGeometry,
        OptimizerWarning,
        Plan,
    )
    from dynamite_fl.simulation.devices import Devices
    from dynamite_fl.simulation.fleets import embedded_fleet
    from dynamite_fl.simulation.traces import Trace, read_trace
    from dynamite_fl.stream.stream import Stream
    from dynamite_fl.task.datasets.load import load_dataset
    from dynamite_fl.task.registry import load_task, make_task
    from dynamite_fl.task.task import Task
    from dynamite_fl.training.history import History, read_history
    from dynamite_fl.training.privacy import Privacy
    from dynamite_fl.training.result import Result

    __version__ = version("dynamite-fl")

# The public names that each module defines. A new name belongs here, in the imports above, which
# only type checkers read, and in ``__all__``.
_NAMES = {
    "api": ("evaluate", "resume", "train"),
    "client.optimizer": ("Optimizer",),
    "errors": (
        "DatasetError",
        "Diverged",
        "DynamiteError",
        "InvalidInput",
        "JobError",
        "MissingExtra",
        "NoSampleYet",
        "OutputError",
        "RunFolderError",
        "TooFewNodes",
        "UserCodeError",
        "WorkerError",
    ),
    "plan.closed_forms": ("constant_time_plan", "uniform_plan"),
    "plan.cohort_size": ("choose_cohort",),
    "plan.cooptfl": ("cooptimize",),
    "plan.feasibility": ("Infeasible",),
    "plan.fixed": ("fixed_plan",),
    "plan.tradeoff": ("tradeoff",),
    "records": (
        "Fleet",
        "LearningRateWarning",
        "Limits",
        "LossGeometry",
        "OptimizerWarning",
        "Plan",
    ),
    "simulation.devices": ("Devices",),
    "simulation.fleets": ("embedded_fleet",),
    "simulation.traces": ("Trace", "read_trace"),
    "stream.stream": ("Stream",),
    "task.datasets.load": ("load_dataset",),
    "task.registry": ("load_task", "make_task"),
    "task.task": ("Task",),
    "training.history": ("History", "read_history"),
    "training.result": ("Result",),
    "training.privacy": ("Privacy",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
_PUBLIC_MODULES = ("controllers", "flower", "metrics", "partitions", "server", "testing")

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
    "Optimizer",
    "OptimizerWarning",
    "OutputError",
    "Plan",
    "Privacy",
    "Result",
    "RunFolderError",
    "Stream",
    "Task",
    "TooFewNodes",
    "Trace",
    "UserCodeError",
    "WorkerError",
    "__version__",
    "choose_cohort",
    "constant_time_plan",
    "controllers",
    "cooptimize",
    "embedded_fleet",
    "evaluate",
    "fixed_plan",
    "flower",
    "load_dataset",
    "load_task",
    "make_task",
    "metrics",
    "partitions",
    "read_history",
    "read_trace",
    "resume",
    "server",
    "testing",
    "tradeoff",
    "train",
    "uniform_plan",
]


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        return version("dynamite-fl")
    if name not in _MODULE_OF and name not in _PUBLIC_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dynamite_fl._extras import naming_extras

    with naming_extras(f"{__name__}.{name}"):
        if name in _PUBLIC_MODULES:
            return import_module(f"{__name__}.{name}")
        return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
