"""The table ``controller`` of a job for a controller that was made in Python."""

from dataclasses import MISSING, fields
from typing import Any

from dynamite_fl.control.controller import Controller
from dynamite_fl.control.registry import CONTROLLERS


def controller_table(controller: Controller[Any]) -> dict[str, Any]:
    """Write a controller as a job's table: its name, and the settings that are not its defaults.

    A setting that TOML has no value for is written as text. It tells two runs apart, but a resume
    then needs the controller itself.

    Example:
        >>> from dynamite_fl.control.baselines.fedavg import FedAvg
        >>> controller_table(FedAvg(local_steps=5))
        {'name': 'fedavg', 'local_steps': 5}
    """
    table: dict[str, Any] = {"name": _name(controller)}
    for field in fields(controller):  # type: ignore[arg-type]  # a controller is a dataclass
        value = getattr(controller, field.name)
        default = field.default is not MISSING and _equal(value, field.default)
        if field.name != "learning_rate" and not default:
            table[field.name] = value if _fits_toml(value) else repr(value)
    return table


def _name(controller: Controller[Any]) -> str:
    """Return the registered name of the controller's class, or the class as ``module:Class``."""
    kind = type(controller)
    own = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, known in CONTROLLERS.items() if known is kind), own)


def _equal(value: object, default: object) -> bool:
    return value is default or (_fits_toml(value) and value == default)


def _fits_toml(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_fits_toml, value))
    return isinstance(value, bool | int | float | str)
