"""Training on real machines, and DYNAMITE inside a Flower app of your own.

In a ServerApp, call ``train``; in a ClientApp, use ``client_app`` with a ``local_client``. The
folder ``examples/flower`` has such an app. If the app has a strategy and a train function already,
``WithinLimits`` and ``StepMeter`` keep both, as in ``examples/flower_strategy``. Names are imported
when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dynamite_fl._extras import naming_extras

if TYPE_CHECKING:
    from dynamite_fl.flower.api import Result, local_client, train
    from dynamite_fl.flower.clientapp import client_app
    from dynamite_fl.flower.step_meter import StepMeter
    from dynamite_fl.flower.strategy import WithinLimits
    from dynamite_fl.flower.timeouts import Timeouts

__all__ = [
    "Result",
    "StepMeter",
    "Timeouts",
    "WithinLimits",
    "client_app",
    "local_client",
    "train",
]

_MODULES = {
    "Result": "api",
    "StepMeter": "step_meter",
    "Timeouts": "timeouts",
    "WithinLimits": "strategy",
    "client_app": "clientapp",
    "local_client": "api",
    "train": "api",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with naming_extras(f"{__name__}.{name}"):
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
