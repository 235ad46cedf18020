"""The page of all results, from run folders."""

import re
import shutil
from pathlib import Path

from typer.testing import CliRunner

from dynamite_fl.cli import app
from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.markdown import played_by
from dynamite_fl.experiments.origin import Origin, read, record


def results(runs: Path, out: Path) -> str:
    words = ["experiment", "results", "--scale", "smoke", "--runs", str(runs), "--out", str(out)]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_the_page_has_all_and_is_the_same_again(played: Path, tmp_path: Path) -> None:
    for out in (tmp_path / "a", tmp_path / "b"):
        assert "12 experiments" in results(played, out)
    page = (tmp_path / "a/results.md").read_text()
    for name in NAMES:
        assert f"\n## {name}: " in page
        assert f"`dynamite experiment {name} --scale smoke --seeds 2`" in page
        first, second = ((tmp_path / x / "results" / f"{name}.svg").read_bytes() for x in "ab")
        assert first == second
    assert page == (tmp_path / "b/results.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", page):
        assert (tmp_path / "a" / target).is_file(), target
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    anchors = [
        "".join(c for c in h.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        for h in headings
    ]
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) == set(anchors)


def test_what_was_not_run_is_listed_as_such(played: Path, tmp_path: Path) -> None:
    shutil.copytree(played / "smoke/optimal-tau", tmp_path / "runs/smoke/optimal-tau")
    said = results(tmp_path / "runs", tmp_path)
    assert "1 experiments\nnot run: batch-sizes," in said
    page = (tmp_path / "results.md").read_text()
    assert "| ablation | `fig:ablation` | not run | | | |" in page
    assert page.count("\n## ") == 1


def test_without_runs_the_page_stays_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text("kept\n")
    words = ["--scale", "smoke", "--runs", str(tmp_path / "none"), "--out", str(tmp_path)]
    shown = CliRunner().invoke(app, ["experiment", "results", *words])
    assert shown.exit_code == 2
    assert "has no finished run: choose another --runs or --scale" in shown.stderr
    assert page.read_text() == "kept\n"
    assert list(tmp_path.iterdir()) == [page]


def test_half_of_the_runs_are_shown_as_half(played: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs/smoke/optimal-tau"
    shutil.copytree(played / "smoke/optimal-tau", runs)
    for seed in (0, 1):
        shutil.rmtree(runs / f"mnist-5-fixed-2x30-{seed}")
    results(tmp_path / "runs", tmp_path)
    page = (tmp_path / "results.md").read_text()
    assert "4 of 6 runs, seeds 0, 1;" in page
    assert "not measured: mnist-5: fixed-10x6 over fixed-2x30" in page


def test_by_whom_runs_were_played(tmp_path: Path) -> None:
    one, two = Origin("2026-01-02", "0.1.0", "abc"), Origin("2026-01-05", "0.1.0", "def+")
    record(tmp_path, one)
    (tmp_path / "checkpoint.safetensors").touch()
    for each in (one, two):
        record(tmp_path, each)
    assert read(tmp_path) == [one, two]
    assert played_by([one, two]) == "2026-01-02 to 2026-01-05, version 0.1.0, commit abc, def+"
    assert played_by([Origin("2026-01-02", "0.1.0", "")]) == "2026-01-02, version 0.1.0"
    assert played_by([]) == "not recorded"


def test_who_was_interrupted_before_a_run_is_not_named(tmp_path: Path) -> None:
    """Runs are noted before they begin; what has no checkpoint begins anew."""
    one, two = Origin("2026-01-02", "0.1.0", "abc"), Origin("2026-01-05", "0.1.0", "def")
    record(tmp_path, one)
    (tmp_path / "history.jsonl").touch()
    record(tmp_path, two)
    assert read(tmp_path) == [two]
