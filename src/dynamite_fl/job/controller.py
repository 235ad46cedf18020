"""The table ``controller`` of a job for a controller that was made in Python."""

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from dynamite_fl.control.controller import Controller
from dynamite_fl.control.registry import CONTROLLERS
from dynamite_fl.errors import InvalidInput


def controller_table(controller: Controller[Any]) -> dict[str, Any]:
    """Write a controller as a job's table: its name, and the settings that are not its defaults.

    Settings that TOML has no value for are listed by name under ``made_in_python``; a resume then
    needs the controller itself.

    Example:
        >>> from dynamite_fl.control.baselines.fedavg import FedAvg
        >>> controller_table(FedAvg(local_steps=5))
        {'name': 'fedavg', 'local_steps': 5}
    """
    given: Any = controller
    if isinstance(given, type) or not is_dataclass(given):
        raise InvalidInput(
            f"controller is {controller!r}: give a name, module:Class, or an object of a class "
            "with @dataclass(frozen=True)"
        )
    settings = {
        field.name: getattr(controller, field.name)
        for field in fields(given)
        if field.name != "learning_rate"
        and (field.default is MISSING or not _is_default(controller, field))
    }
    plain = {key: value for key, value in settings.items() if _fits_toml(value)}
    others = [key for key in settings if key not in plain]
    table = {"name": _name(controller), **plain}
    return {**table, "made_in_python": others} if others else table


def _name(controller: Controller[Any]) -> str:
    """Return the registered name of the controller's class, or the class as ``module:Class``."""
    kind = type(controller)
    own = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, known in CONTROLLERS.items() if known is kind), own)


def _is_default(controller: object, field: Field[Any]) -> bool:
    value = getattr(controller, field.name)
    return value is field.default or (_fits_toml(value) and value == field.default)


def _fits_toml(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_fits_toml, value))
    return isinstance(value, bool | int | float | str)
