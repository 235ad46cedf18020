"""The command ``dynamite keys``."""

import json
from pathlib import Path

from typer.testing import CliRunner

from dynamite_fl._cli.all_commands import app
from tests._cli.machines import refusal


def test_folders_for_the_server_and_each_node(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["keys", "a", "b", "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert f"For a: {tmp_path / 'a'}" in result.output
    assert (tmp_path / "a" / "node.key").exists()
    assert "cannot be a node's name" in refusal("keys", "server", "--folder", tmp_path)


def test_folders_for_scripts(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["keys", "a", "--folder", str(tmp_path), "--json"])
    folders = json.loads(result.stdout)
    assert folders == {"server": str(tmp_path / "server"), "nodes": {"a": str(tmp_path / "a")}}
