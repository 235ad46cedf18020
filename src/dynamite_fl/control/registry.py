"""Controllers by name, or of the user's own as ``module:Class``."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from dynamite_fl._load import load_object, user_code
from dynamite_fl._validate import check_name, check_settings
from dynamite_fl.control.ablations import StaticTau, UniformBatches
from dynamite_fl.control.baselines.dbfl import DBFL
from dynamite_fl.control.baselines.dynamic_tau import DynamicTau
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.control.baselines.no_straggler import NoStraggler
from dynamite_fl.control.baselines.offline_cooptfl import CoOptFL
from dynamite_fl.control.baselines.uniform import Uniform
from dynamite_fl.control.controller import Controller
from dynamite_fl.control.dynamite import Dynamite
from dynamite_fl.control.feedback import Feedback
from dynamite_fl.errors import JobError

CONTROLLERS: dict[str, type[Controller[Any]]] = {
    "dynamite": Dynamite,
    "dynamite-feedback": Feedback,
    "dynamite-static-tau": StaticTau,
    "dynamite-uniform": UniformBatches,
    "fedavg": FedAvg,
    "uniform": Uniform,
    "no-straggler": NoStraggler,
    "dbfl": DBFL,
    "dynamic-tau": DynamicTau,
    "cooptfl": CoOptFL,
    "fixed": FedAvg,
}
_PROTOCOL = ("measures", "describe", "start", "adapt")


def make_controller(
    name: str, *, learning_rate: float | None, folders: Sequence[Path] = (), **settings: Any
) -> Controller[Any]:
    """Return a controller.

    Args:
        name: The name of a controller of this package, or ``module:Class`` for one of your own: a
            frozen dataclass with the methods of ``Controller``.
        learning_rate: eta, the step size of local steps. It is passed to controllers that have a
            field of that name.
        folders: The folders in which to look for a module, before the current folder and Python's
            path.
        settings: The other fields of the controller.

    Raises:
        InvalidInput: The name or a setting is unknown, missing or wrong.
        UserCodeError: The user's own module or class raised an exception.

    Example:
        >>> make_controller("fixed", learning_rate=0.01, local_steps=5, batch_size=32)
        FedAvg(local_steps=5, batch_size=32)
        >>> make_controller("dynamit", learning_rate=0.01)
        Traceback (most recent call last):
        dynamite_fl.errors.InvalidInput: there is no controller 'dynamit': did you mean 'dynamite'?
    """
    if ":" in name:
        return _make_own(name, learning_rate, folders, settings)
    check_name("controller", name, CONTROLLERS)
    kind = CONTROLLERS[name]
    return kind(**_arguments(name, kind, learning_rate, settings))


def _make_own(
    spec: str, learning_rate: float | None, folders: Sequence[Path], settings: Mapping[str, Any]
) -> Controller[Any]:
    """Return a controller of the user's own class."""
    kind = load_object(spec, "controller", folders)
    is_class = isinstance(kind, type) and is_dataclass(kind)
    if not is_class or not kind.__dataclass_params__.frozen:
        raise JobError(f"controller {spec}: it must be a class with @dataclass(frozen=True)")
    lacking = [member for member in _PROTOCOL if not hasattr(kind, member)]
    if lacking:
        raise JobError(f"controller {spec} lacks {', '.join(lacking)}: see Controller for all")
    arguments = _arguments(spec, kind, learning_rate, settings)
    with user_code(f"controller {spec}"):
        controller: Controller[Any] = kind(**arguments)
    return controller


def _arguments(
    name: str, kind: type, learning_rate: float | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings with the learning rate if the class has it. Check their names."""
    known: dict[str, Field[Any]] = {field.name: field for field in fields(kind) if field.init}
    given = {"learning_rate": learning_rate} if "learning_rate" in known else {}
    free = [setting for setting in known if setting not in given]
    check_settings(f"controller {name}", settings, free)
    for setting in free:
        required = known[setting].default is MISSING and known[setting].default_factory is MISSING
        if required and setting not in settings:
            raise JobError(f"controller {name} needs the setting {setting!r}")
    return {**given, **settings}
