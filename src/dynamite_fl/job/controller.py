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
    frozen = is_dataclass(given) and getattr(given, "__dataclass_params__").frozen  # noqa: B009
    if isinstance(given, type) or not frozen:
        raise InvalidInput(
            f"controller is {controller!r}: give a name, module:Class, or an object of a class "
            "with @dataclass(frozen=True)"
        )
    settings = {
        field.name: getattr(controller, field.name)
        for field in fields(given)
        if field.init and field.name != "learning_rate" and not _is_default(controller, field)
    }
    for key in ("name", "made_in_python"):
        if key in settings:
            raise InvalidInput(f"the controller has a setting {key!r}: a job means another by it")
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
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return value is field.default or (_fits_toml(value) and value == field.default)


def _fits_toml(value: object) -> bool:
    """Return whether a value comes back from TOML as it is: a tuple or an enum would not."""
    if type(value) is list:
        return all(map(_fits_toml, value))
    return type(value) in (bool, int, float, str)
