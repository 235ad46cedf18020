"""``dynamite report``; what a report shows is tested in ``tests/report``."""

import json
import shutil
from pathlib import Path

import pytest

from tests._cli.commands import invoke
from tests._cli.test_run import trained


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a short run, to be read only."""
    return trained(tmp_path_factory.mktemp("runs"), "--set", "limits.rounds=2")


def test_it_says_where_the_report_is(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "a")
    result = invoke("report", tmp_path / "a")
    assert result.exit_code == 0, result.stderr
    file = tmp_path / "a" / "report.html"
    assert result.stdout == f"The report of 1 run is in {file}\n"
    assert file.read_text().startswith("<!doctype html>")


def test_several_runs_are_reported_where_one_is(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        shutil.copytree(run, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    result = invoke("report", "a", "b", "--json")
    assert result.exit_code == 0, result.stderr
    written = json.loads(result.stdout)
    assert (written["file"], written["runs"]) == ("report.html", 2)
    assert (tmp_path / "report.html").is_file()


def test_notes_go_to_the_error_stream(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    result = invoke("report", run, tmp_path / "gone", "--out", out)
    assert result.exit_code == 0
    assert result.stderr.endswith(f"note: {tmp_path / 'gone'} does not exist\n")
    assert out.is_file()


def test_nothing_to_show_ends_with_2(tmp_path: Path) -> None:
    result = invoke("report", tmp_path)
    assert result.exit_code == 2
    assert "holds no run" in result.stderr
    assert not list(tmp_path.iterdir())
