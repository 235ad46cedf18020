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
        written = write_results(finished, "smoke", out)
        assert (len(written.renewed), written.kept, written.missing) == (len(NAMES), [], [])
    page = (tmp_path / "a/results.md").read_text()
    for name in NAMES:
        assert f"\n## {name} (smoke): " in page
        assert f"`dynamite experiment {name} --scale smoke --seeds 2`" in page
        first, second = (
            (tmp_path / x / "results" / f"{name}-smoke.svg").read_bytes() for x in "ab"
        )
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
    written = write_results(one, "smoke", tmp_path)
    assert [title.split()[0] for title in written.renewed] == ["optimal-tau"]
    assert written.missing == [name for name in NAMES if name != "optimal-tau"]
    page = (tmp_path / "results.md").read_text()
    assert "| ablation | smoke | `fig:ablation` | not run | | | |" in page
    assert page.count("\n## ") == 1
    assert "6 of 6 runs are finished (seeds 0, 1); they were made on 2026-01-02 with" in page
    assert "5 clients" in (tmp_path / "results/optimal-tau-smoke.svg").read_text()


def test_runs_of_another_scale_are_shown_beside_those_of_the_first(
    one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    written = write_results(one, "smoke", tmp_path, "reduced")
    assert (len(written.renewed), len(written.missing)) == (1, len(NAMES) - 1)
    page = (tmp_path / "results.md").read_text()
    assert "`dynamite experiment results --scale smoke --also reduced --runs " in page
    assert "reduced |" not in page  # nothing was run at it
    with pytest.raises(JobError, match="reduced has no finished run"):
        write_results(one, "reduced", tmp_path)
    assert (tmp_path / "results.md").read_text() == page


def test_without_runs_the_page_stays_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text("kept\n")
    with pytest.raises(
        JobError,
        match="has no finished run that is not on the page: choose another --runs or --scale",
    ):
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
        (runs / f"mnist-5-fixed-2x30-{seed}.json").unlink(missing_ok=True)
    write_results(tmp_path / "runs", "smoke", tmp_path)
    page = (tmp_path / "results.md").read_text()
    assert "4 of 6 runs are finished (seeds 0, 1)" in page
    assert "not measured: mnist-5: fixed-10x6 over fixed-2x30" in page


def records_of(root: Path, to: Path) -> Path:
    """Copy the records and plans of an experiment without its run folders."""
    (to / "smoke/optimal-tau").mkdir(parents=True)
    for file in (root / "smoke/optimal-tau").glob("*-[0-9].json"):
        shutil.copy(file, to / "smoke/optimal-tau")
    return to


def test_records_without_run_folders_make_the_same_page(
    one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    write_results(one, "smoke", tmp_path / "a")
    write_results(records_of(one, tmp_path / "records"), "smoke", tmp_path / "b")
    pages = [(tmp_path / x / "results.md").read_text() for x in "ab"]
    pictures = [(tmp_path / x / "results/optimal-tau-smoke.svg").read_text() for x in "ab"]
    assert pages[0] == pages[1]
    assert pictures[0] == pictures[1]


def test_sections_with_more_runs_and_of_other_experiments_stay(
    one: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    write_results(one, "smoke", tmp_path)
    page = (tmp_path / "results.md").read_text()
    # Other experiments are added, and of this one there is one run less than before.
    fewer = records_of(one, tmp_path / "fewer")
    (fewer / "smoke/optimal-tau/mnist-5-fixed-2x30-1.json").unlink()
    with pytest.raises(JobError, match="no finished run that is not on the page"):
        write_results(fewer, "smoke", tmp_path)
    shutil.copytree(finished / "smoke/online-accuracy", fewer / "smoke/online-accuracy")
    written = write_results(fewer, "smoke", tmp_path)
    assert [title.split()[0] for title in written.kept] == ["optimal-tau"]
    assert "online-accuracy" in [title.split()[0] for title in written.renewed]
    assert "optimal-tau" not in written.missing
    now = (tmp_path / "results.md").read_text()
    assert page[page.index("\n## optimal-tau") :] in now
    assert now.count("| [optimal-tau](#optimal-tau-smoke") == 1
    assert "| [online-accuracy](#online-accuracy-smoke" in now


def test_sections_of_a_scale_that_is_not_asked_for_stay(
    one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_drawing(monkeypatch)
    write_results(one, "smoke", tmp_path)
    page = tmp_path / "results.md"
    of_laptop = page.read_text().replace("smoke", "laptop")
    page.write_text(of_laptop)
    kept = tmp_path / "results/optimal-tau.svg"  # the figure of the scale laptop has no ending
    kept.write_text("drawn before")
    assert len(write_results(one, "smoke", tmp_path).kept) == 1
    assert kept.read_text() == "drawn before"
    assert page.read_text().endswith(of_laptop[of_laptop.index("\n## optimal-tau") :])
