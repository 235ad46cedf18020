"""All controllers by name."""

from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any

from dynamite_fl.control.controller import Controller
from dynamite_fl.control.cooptfl import CoOptFL
from dynamite_fl.control.dbfl import DBFL
from dynamite_fl.control.dynamic_tau import DynamicTau
from dynamite_fl.control.dynamite import Dynamite
from dynamite_fl.control.fedavg import FedAvg
from dynamite_fl.control.feedback import Feedback
from dynamite_fl.control.no_straggler import NoStraggler
from dynamite_fl.control.uniform import Uniform

# Each name's class, and the settings that make it what it is called.
CONTROLLERS: dict[str, tuple[Callable[..., Controller], dict[str, Any]]] = {
    "dynamite": (Dynamite, {"variant": "full"}),
    "dynamite-feedback": (Feedback, {}),
    "dynamite-static-tau": (Dynamite, {"variant": "static-tau"}),
    "dynamite-uniform": (Dynamite, {"variant": "uniform"}),
    "fedavg": (FedAvg, {}),
    "uniform": (Uniform, {}),
    "no-straggler": (NoStraggler, {}),
    "dbfl": (DBFL, {}),
    "dynamic-tau": (DynamicTau, {}),
    "cooptfl": (CoOptFL, {}),
    "fixed": (FedAvg, {}),
}


def make_controller(name: str, *, learning_rate: float, **settings: Any) -> Controller:
    """A controller by its name; the learning rate goes to those that reckon with it.

    Raises:
        ValueError: The name or a setting is unknown, missing or wrong.

    Example:
        >>> make_controller("fixed", learning_rate=0.01, local_steps=5, batch_size=32)
        FedAvg(local_steps=5, batch_size=32, memory=0.9)
        >>> make_controller("dynamit", learning_rate=0.01)
        Traceback (most recent call last):
        ValueError: controller 'dynamit' is unknown: did you mean 'dynamite'?
    """
    if name not in CONTROLLERS:
        raise ValueError(f"controller {name!r} is unknown: {_suggestion(name, CONTROLLERS)}")
    make, given = CONTROLLERS[name]
    known = {field.name: field for field in fields(make)}  # type: ignore[arg-type]  # dataclasses
    open_settings = known.keys() - given - {"learning_rate"}
    for setting in settings:
        if setting not in open_settings:
            hint = _suggestion(setting, sorted(open_settings))
            raise ValueError(f"{name} has no setting {setting!r}: {hint}")
    if "learning_rate" in known:
        given = {**given, "learning_rate": learning_rate}
    for setting in open_settings - settings.keys():
        if known[setting].default is MISSING:
            raise ValueError(f"{name} needs the setting {setting!r}")
    return make(**given, **settings)


def _suggestion(word: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(word, list(known), n=1, cutoff=0.0)
    return f"did you mean {nearest[0]!r}?"
