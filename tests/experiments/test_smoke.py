"""Every experiment, at the scale that takes seconds: figure, data and verdict."""

import csv
import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dynamite_fl.cli import app
from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.read import load_experiment

VERDICTS = {"holds", "does not hold", "not at this scale", "one seed shows no spread"}


def texts(svg: Path) -> str:
    root = ET.fromstring(svg.read_text())  # noqa: S314  our own
    return " ".join(
        "".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment(name: str, played: Path) -> None:
    words = ["experiment", name, "--scale", "smoke", "--runs", str(played), "--json"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "runs were finished before" in shown.stderr
    folder, experiment = played / "smoke" / name, load_experiment(name)

    verdict = json.loads(shown.stdout, parse_constant=pytest.fail)
    assert verdict == json.loads((folder / "verdict.json").read_text())
    assert verdict["finished_runs"] == verdict["runs"] > 0
    assert verdict["seeds"] == [0, 1]
    assert verdict["failed"] == {}
    assert verdict["played_by"][0]["version"]
    asked = [claim.says for claim in experiment.claims]
    assert [each["says"] for each in verdict["claims"] if not each["also"]] == asked
    assert {claim["verdict"] for claim in verdict["claims"]} <= VERDICTS
    assert {"holds", "does not hold"} & {claim["verdict"] for claim in verdict["claims"]}

    drawn = texts(folder / "figure.svg")
    for panel in experiment.panels_at("smoke"):
        assert experiment.panels[panel].title in drawn
    for contender in experiment.contenders.values():
        assert contender.title in drawn

    with (folder / "figure.csv").open() as file:
        points = list(csv.DictReader(file))
    assert points
    assert all(math.isfinite(float(point["mean"])) for point in points)
    with (folder / "runs.csv").open() as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == verdict["runs"]
    assert all(0 <= float(run["accuracy"]) <= 1 for run in runs)

    text = (folder / "verdict.md").read_text()
    assert text.startswith(f"# {name}: {experiment.title}\n")
    assert "![" in text
    assert all(says in text for says in asked)


def test_numbers_of_the_verdict_are_those_of_the_runs(played: Path) -> None:
    """The mean accuracy in the verdict, from the CSV by hand."""
    name = "online-accuracy"
    CliRunner().invoke(app, ["experiment", name, "--scale", "smoke", "--runs", str(played)])
    folder = played / "smoke" / name
    with (folder / "runs.csv").open() as file:
        runs = [
            r for r in csv.DictReader(file) if (r["panel"], r["contender"]) == ("cost", "fedavg")
        ]
    mean = sum(float(run["accuracy"]) for run in runs) / len(runs)
    verdict = json.loads((folder / "verdict.json").read_text())
    assert verdict["panels"]["cost"]["measured"]["fedavg"]["accuracy"]["mean"] == pytest.approx(
        mean
    )


def test_what_a_person_sees(played: Path) -> None:
    words = ["experiment", "online-accuracy", "--scale", "smoke", "--runs", str(played)]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "Online accuracy on CIFAR-10" in shown.stdout
    assert "DYNAMITE has the highest accuracy in all four panels" in shown.stdout
    assert "the same of dynamite-feedback" in shown.stdout
    assert "figure, data and verdict:" in shown.stdout


def test_one_seed_is_enough_to_draw_but_not_to_judge(played: Path) -> None:
    words = ["experiment", "ablation", "--scale", "smoke", "--seeds", "1", "--json"]
    shown = CliRunner().invoke(app, [*words, "--runs", str(played)])
    assert shown.exit_code == 0, shown.output
    verdicts = {claim["verdict"] for claim in json.loads(shown.stdout)["claims"]}
    assert verdicts == {"one seed shows no spread"}
