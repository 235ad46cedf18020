"""The controllers, for use from Python."""

import inspect

from dynamite_fl import controllers
from dynamite_fl.control.registry import CONTROLLERS


def test_every_registered_controller_can_be_imported() -> None:
    classes = {value for value in vars(controllers).values() if inspect.isclass(value)}
    for name, kind in CONTROLLERS.items():
        if inspect.isclass(kind) and name != "fixed":
            assert kind in classes, name


def test_all_names_are_exported() -> None:
    for name in controllers.__all__:
        assert hasattr(controllers, name), name
