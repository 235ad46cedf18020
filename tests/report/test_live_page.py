"""The state of the page that follows a training."""

import json
import os
import shutil
from pathlib import Path

import pytest

from dynamite_fl.report.live_page import LivePage


@pytest.fixture
def growing(runs: Path, tmp_path: Path) -> Path:
    """Return a copy of a run as it was after three rounds."""
    folder = tmp_path / "plain"
    shutil.copytree(runs / "plain", folder)
    for later in ("ended.txt", "checkpoint.safetensors"):
        (folder / later).unlink()
    lines = (runs / "plain" / "history.jsonl").read_text().splitlines(keepends=True)
    (folder / "history.jsonl").write_text("".join(lines[:3]))
    return folder


def test_the_page_changes_with_the_run_and_only_then(growing: Path, runs: Path) -> None:
    live = LivePage([growing])
    first = live.state()
    assert first is not None
    assert live.state() is first  # nothing is read again
    assert "not ended yet" in first.page.below
    assert first.page.body.count('class="notes"') == 0  # a run that goes on is nothing to warn of
    whole = (runs / "plain" / "history.jsonl").read_text()
    (growing / "history.jsonl").write_text(whole)
    second = live.state()
    assert second is not None
    assert second.tag != first.tag
    shown = json.loads(second.json())
    assert shown["charts"] == second.page.chart_data
    assert f">{len(whole.splitlines()):,}<" in shown["body"]  # the number of rounds
    (growing / "ended.txt").write_text("deadline\n")
    third = live.state()
    assert third is not None
    assert "ended by the deadline" in third.page.below


def test_a_folder_of_runs_has_a_page_of_all_and_one_of_each(runs: Path) -> None:
    live = LivePage([runs / "versus"])
    overview = live.state()
    assert overview is not None
    names = sorted(path.name for path in (runs / "versus").iterdir() if path.is_dir())
    for name in names:
        assert f'href="/?run={name}"' in overview.links
        state = live.state(name)
        assert state is not None
        assert state.page.title == name
        assert f'href="/?run={name}" aria-current="page"' in state.links
    assert overview.page.title == "versus"
    assert 'href="/" aria-current="page"' in overview.links


@pytest.mark.parametrize("name", ["no-such-run", "../plain", "/etc", "..", "plain/../plain", "\0"])
def test_only_names_of_runs_that_were_found_are_known(runs: Path, name: str) -> None:
    assert LivePage([runs / "versus"]).state(name) is None


def test_a_run_that_has_not_begun_is_waited_for(runs: Path, tmp_path: Path) -> None:
    live = LivePage([tmp_path / "tuesday"])
    before = live.state()
    assert before is not None
    assert "There is no run yet" in before.html()
    (tmp_path / "tuesday").mkdir()
    shutil.copy(runs / "plain" / "job.toml", tmp_path / "tuesday")
    begun = live.state()
    assert begun is not None
    assert "not ended yet" in begun.page.below
    shutil.copy(runs / "plain" / "history.jsonl", tmp_path / "tuesday")
    os.utime(tmp_path / "tuesday" / "history.jsonl")
    after = live.state()
    assert after is not None
    assert "Accuracy by round" in after.page.body


def test_names_cannot_be_markup(runs: Path, tmp_path: Path) -> None:
    for name in ("<b>&a", "plain"):
        shutil.copytree(runs / "plain", tmp_path / "runs" / name)
    state = LivePage([tmp_path / "runs"]).state()
    assert state is not None
    assert "<b>&a" not in state.html()
    assert 'href="/?run=%3Cb%3E%26a"' in state.links
