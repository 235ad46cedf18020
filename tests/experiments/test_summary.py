"""Every experiment at the scale that takes seconds: its figure, its data and its verdict."""

import csv
import json
import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.experiment import load_experiment
from dynamite_fl.experiments.summary import summarize, to_json, write_summary
from tests.experiments.smoke import QUICK_NAMES, run_here, smoke

VERDICTS = {"holds", "does not hold", "not at this scale", "one seed shows no spread"}


def texts(svg: Path) -> str:
    root = ET.fromstring(svg.read_text())  # noqa: S314  our own
    return " ".join(
        "".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")
    )


def rows(file: Path) -> list[dict[str, str]]:
    with file.open() as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK_NAMES else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_every_experiment(name: str, finished: Path) -> None:
    runs = smoke(name, finished)
    run_here(runs)
    experiment, folder = runs.experiment, runs.folder
    write_summary(summarize(runs))

    verdict = json.loads((folder / "verdict.json").read_text(), parse_constant=pytest.fail)
    assert verdict["finished_runs"] == verdict["runs"] == experiment.run_count("smoke") > 0
    assert verdict["seeds"] == [0, 1]
    assert verdict["failed"] == {}
    assert verdict["origins"][0]["version"]
    asked = [claim.says for claim in experiment.claims]
    assert [each["says"] for each in verdict["claims"] if not each["also_of"]] == asked
    assert {claim["verdict"] for claim in verdict["claims"]} <= VERDICTS
    assert {"holds", "does not hold"} & {claim["verdict"] for claim in verdict["claims"]}

    drawn = texts(folder / "figure.svg")
    for panel in experiment.panels_at("smoke"):
        assert experiment.panels[panel].title in drawn
    for contender in experiment.contenders.values():
        assert contender.title in drawn

    points = rows(folder / "figure.csv")
    assert points
    assert all(math.isfinite(float(point["mean"])) for point in points)
    measured = rows(folder / "runs.csv")
    assert len(measured) == verdict["runs"]
    assert all(0 <= float(run["accuracy"]) <= 1 for run in measured)

    text = (folder / "verdict.md").read_text()
    assert text.startswith(f"# {name} (smoke): {experiment.title}\n")
    assert "![" in text
    assert all(says in text for says in asked)


def test_numbers_of_the_verdict_are_those_of_the_runs(finished: Path) -> None:
    """The mean accuracy of the summary is that of the histories."""
    summary = summarize(smoke("online-accuracy", finished))
    histories = summary.outcome.histories["cost"]["fedavg"].values()
    mean = sum(history.final for history in histories) / len(histories)
    measured = to_json(summary)["panels"]["cost"]["measured"]["fedavg"]
    assert measured["accuracy"]["mean"] == pytest.approx(mean)


def test_one_seed_is_enough_to_draw_but_not_to_judge(finished: Path) -> None:
    summary = summarize(replace(smoke("ablation", finished), seeds=1))
    assert summary.charts
    assert {verdict.verdict for verdict in summary.verdicts} == {"one seed shows no spread"}


def test_the_command_names_scale_and_seeds(finished: Path) -> None:
    command = "dynamite experiment ablation --scale smoke --seeds 2"
    assert summarize(smoke("ablation", finished)).command == command
    assert load_experiment("ablation").runs_from == "online-accuracy"
