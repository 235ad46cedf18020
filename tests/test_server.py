"""The server optimisers, for use from Python."""

from dynamite_fl import server
from dynamite_fl.training.server_optimizer import SERVER_OPTIMIZERS


def test_every_server_optimiser_can_be_imported() -> None:
    for name, kind in SERVER_OPTIMIZERS.items():
        assert getattr(server, kind.__name__, None) is kind, name


def test_all_names_are_exported() -> None:
    for name in server.__all__:
        assert hasattr(server, name), name
