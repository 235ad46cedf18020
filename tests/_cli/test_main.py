"""The entry point: how a command ends that is interrupted before it begins."""

import sys
from importlib.abc import MetaPathFinder

import pytest

from dynamite_fl._cli.errors import INTERRUPTED
from dynamite_fl._cli.main import main

COMMANDS = "dynamite_fl._cli.all_commands"


class Interrupted(MetaPathFinder):
    """Presses Ctrl-C when the commands are imported."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == COMMANDS:
            raise KeyboardInterrupt


def test_ctrl_c_while_commands_are_imported(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, COMMANDS, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == INTERRUPTED
    assert capfd.readouterr() == ("", "Interrupted.\n")
