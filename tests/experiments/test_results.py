"""The page of all results, from run folders."""

import re
import shutil
from pathlib import Path

import pytest

from dynamite_fl.errors import JobError
from dynamite_fl.experiments import NAMES, results
from dynamite_fl.experiments.results import write_results
from tests.experiments.smoke import run_here, smoke


@pytest.fixture(scope="module")
def one(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the runs of one experiment, to be read only."""
    root = tmp_path_factory.mktemp("one")
    shutil.copytree(finished / "smoke/optimal-tau", root / "smoke/optimal-tau")
    return root


def without_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave drawing, which takes most of the time, to the tests of summaries and figures."""
    monkeypatch.setattr(results, "figure_svg", lambda summary: f"<svg>{summary.charts}</svg>")


@pytest.mark.slow
def test_the_page_has_all_and_is_the_same_again(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    for name in NAMES:
        run_here(smoke(name, finished))
    for out in (tmp_path / "a", tmp_path / "b"):
        assert write_results(finished, "smoke", out) == (list(NAMES), [])
    page = (tmp_path / "a/results.md").read_text()
    for name in NAMES:
        assert f"\n## {name} (smoke): " in page
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


def test_an_experiment_that_was_not_run_is_listed_as_such(one: Path, tmp_path: Path) -> None:
    """This test draws: the picture is the figure of the experiment."""
    done, missing = write_results(one, "smoke", tmp_path)
    assert (done, missing) == (["optimal-tau"], [name for name in NAMES if name != "optimal-tau"])
    page = (tmp_path / "results.md").read_text()
    assert "| ablation | smoke | `fig:ablation` | not run | | | |" in page
    assert page.count("\n## ") == 1
    assert "6 of 6 runs are finished (seeds 0, 1); they were made on 2026-01-02 with" in page
    assert "5 clients" in (tmp_path / "results/optimal-tau.svg").read_text()


def test_runs_of_another_scale_are_shown_beside_those_of_the_first(
    one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    done, missing = write_results(one, "smoke", tmp_path, "reduced")
    assert (done, len(missing)) == (["optimal-tau"], len(NAMES) - 1)
    page = (tmp_path / "results.md").read_text()
    assert "`dynamite experiment results --scale smoke --also reduced --runs RUNS" in page
    assert "reduced |" not in page  # nothing was run at it
    with pytest.raises(JobError, match="reduced has no finished run"):
        write_results(one, "reduced", tmp_path, "smoke")
    assert (tmp_path / "results.md").read_text() == page


def test_without_runs_the_page_stays_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text("kept\n")
    with pytest.raises(JobError, match="has no finished run: choose another --runs or --scale"):
        write_results(tmp_path / "none", "smoke", tmp_path)
    assert page.read_text() == "kept\n"
    assert list(tmp_path.iterdir()) == [page]


def test_half_of_the_runs_are_shown_as_half(
    one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    runs = tmp_path / "runs/smoke/optimal-tau"
    shutil.copytree(one / "smoke/optimal-tau", runs)
    for seed in (0, 1):
        shutil.rmtree(runs / f"mnist-5-fixed-2x30-{seed}")
    write_results(tmp_path / "runs", "smoke", tmp_path)
    page = (tmp_path / "results.md").read_text()
    assert "4 of 6 runs are finished (seeds 0, 1)" in page
    assert "not measured: mnist-5: fixed-10x6 over fixed-2x30" in page
